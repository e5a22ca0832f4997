//! `tpbemu verify`: proves that every schedule gives the same result, or says what stands against
//! it; and checks such proofs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;

use crate::certificate::{Certificate, check, refused};
use crate::error::{Error, ErrorClass, Location, Result};
use crate::explore::campaign::{Book, Campaign};
use crate::explore::{Schedule, Strategy, Subject, Trial};
use crate::machine::{Machine, MachineConfig};
use crate::skeleton::classes::{self, Bound};
use crate::skeleton::extract::{Extracted, extract, place};
use crate::skeleton::fast::Fast;
use crate::skeleton::prove::{Failure, Premise, Proof, prove};
use crate::skeleton::{Skeleton, certify, confirm};

/// Failures that are printed for one premise.
const MOST_SHOWN: usize = 8;

/// Proves that every schedule of a program gives the same result.
///
/// Exit code 0: proved, or the certificate is valid. 1: not proved, and no schedule with a finding
/// was found; or the certificate is refused. Otherwise the code of the finding's class, as for
/// `run`: 11 undefined behaviour (race, lost signal), 13 deadlock, and so on.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Program, as for `run`; with --check only if it is not where the certificate says.
    #[arg(required_unless_present = "check")]
    program: Option<PathBuf>,
    /// Where to write the certificate of a proof.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    certificate: Option<PathBuf>,
    /// Check a certificate, without the analysis that made it.
    #[arg(long, value_name = "CERT")]
    check: Option<PathBuf>,
    /// Configuration file instead of the generation's built-in one.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Schedules to try if there is no proof.
    #[arg(long, default_value_t = 200, value_name = "N")]
    explore: u64,
    /// Stop a run after this many cycles of the fastest clock.
    #[arg(long, default_value_t = 1_000_000_000)]
    max_cycles: u64,
}

/// Runs the subcommand.
///
/// # Errors
/// The program does not load, a file cannot be read or written, a certificate is refused.
pub fn main(args: &VerifyArgs) -> Result<ExitCode> {
    if let Some(path) = &args.check {
        return check_file(args, path);
    }
    let Some(path) = &args.program else { return Err(refused("no program")) };
    let (program, config) = load(args, path)?;
    let subject = Subject {
        program,
        config,
        timing_only: false,
        max_cycles: args.max_cycles,
        interrupt: Arc::new(AtomicBool::new(false)),
        threads: 0,
    };
    let flag = Arc::clone(&subject.interrupt);
    // a second handler (in-process tests) is not an error worth telling
    let _ = ctrlc::set_handler(move || flag.store(true, std::sync::atomic::Ordering::Relaxed));
    match attempt(&subject, path)? {
        Verdict::Proved { certificate, checked } => {
            println!("proved: {}", certificate.statement);
            for premise in &certificate.premises {
                println!("  {}: {}", premise.name, premise.text);
            }
            println!(
                "{} instructions, {} orderings, {} conflicting accesses",
                checked.steps, checked.edges, checked.conflicts
            );
            if let Some(path) = &args.certificate {
                certificate.store(path)?;
                println!("certificate: {}", path.display());
            }
            Ok(ExitCode::SUCCESS)
        }
        Verdict::Finding { error, .. } => {
            println!("not proved: the undisturbed run already fails");
            eprintln!("{error}");
            Ok(ExitCode::from(error.class.exit_code()))
        }
        Verdict::Open { failures, undisturbed, skeleton } => {
            println!("not proved; what stands against it:");
            for line in failures {
                println!("  {line}");
            }
            explore(args, &subject, &undisturbed, skeleton)
        }
    }
}

fn load(
    args: &VerifyArgs,
    path: &Path,
) -> Result<(Arc<crate::program::Program>, Arc<MachineConfig>)> {
    let program = Arc::new(super::run::load(path, None)?);
    let config = match &args.config {
        Some(path) => MachineConfig::load(path)?,
        None => MachineConfig::builtin(program.generation),
    };
    Ok((program, Arc::new(config)))
}

fn check_file(args: &VerifyArgs, path: &Path) -> Result<ExitCode> {
    let certificate = Certificate::load(path)?;
    let (program, config) = load(args, args.program.as_ref().unwrap_or(&certificate.path))?;
    let checked = check::check(&certificate, &program, &config)?;
    println!(
        "valid: {} instructions, {} orderings justified, {} conflicting accesses in order",
        checked.steps, checked.edges, checked.conflicts
    );
    Ok(ExitCode::SUCCESS)
}

/// What the search for a proof came to.
pub enum Verdict {
    /// Proved, and the checker follows.
    Proved {
        /// The proof.
        certificate: Box<Certificate>,
        /// What the checker saw.
        checked: check::Checked,
    },
    /// The undisturbed run fails.
    Finding {
        /// With what.
        error: Box<Error>,
    },
    /// Not proved.
    Open {
        /// Premises that fail, and where.
        failures: Vec<String>,
        /// The undisturbed run.
        undisturbed: Box<Trial>,
        /// The skeleton, if there is one.
        skeleton: Option<Box<Known>>,
    },
}

/// A skeleton, what is known of its order, and the machine that names its places.
pub struct Known {
    /// The skeleton.
    pub skeleton: Skeleton,
    /// The order that every schedule keeps.
    pub proof: Proof,
    /// The machine after the undisturbed run.
    pub machine: Machine,
}

/// Looks for a proof; `path` is what the certificate names.
///
/// # Errors
/// The program does not load.
pub fn attempt(subject: &Subject, path: &Path) -> Result<Verdict> {
    let undisturbed = Box::new(subject.run(Schedule::probe)?);
    if let Some(error) = undisturbed.error.clone() {
        return Ok(Verdict::Finding { error: Box::new(error) });
    }
    let known = match known(subject)? {
        Ok(known) => known,
        Err(why) => {
            let failures = vec![format!("{}: {why}", Premise::ControlFixed.name())];
            return Ok(Verdict::Open { failures, undisturbed, skeleton: None });
        }
    };
    let mut failures = shown(&known.proof.failures, &known.machine);
    if known.proof.holds() {
        let (sk, proof) = (&known.skeleton, &known.proof);
        let certificate = certify::certify(sk, proof, &subject.program, path);
        match check::check(&certificate, &subject.program, &subject.config) {
            Ok(checked) => {
                return Ok(Verdict::Proved { certificate: Box::new(certificate), checked });
            }
            Err(e) => failures.push(format!("the checker does not follow: {}", e.message)),
        }
    }
    Ok(Verdict::Open { failures, undisturbed, skeleton: Some(Box::new(known)) })
}

/// The skeleton of a program, or why it has none.
///
/// # Errors
/// The program does not load.
pub fn known(subject: &Subject) -> Result<std::result::Result<Known, String>> {
    Ok(match extract(subject)? {
        Extracted::Skeleton(skeleton, machine) => {
            let proof = prove(&skeleton);
            Ok(Known { skeleton: *skeleton, proof, machine: *machine })
        }
        Extracted::Refused(refusal) => Err(refusal.to_string()),
        Extracted::Failed(error) => Err(error.message),
    })
}

fn shown(failures: &[Failure], machine: &Machine) -> Vec<String> {
    let mut out = Vec::new();
    for premise in Premise::ALL {
        let mine: Vec<&Failure> = failures.iter().filter(|f| f.premise == premise).collect();
        for f in mine.iter().take(MOST_SHOWN) {
            let mut places = f.places.iter().map(|&(stream, pc)| {
                let at = machine.location(stream, pc as usize);
                place(&Location { cycle: None, ..at })
            });
            let first = places.next().unwrap_or_default();
            let others: Vec<String> =
                places.take(3).map(|p| p.trim_end_matches(": ").to_string()).collect();
            let others = match others.is_empty() {
                true => String::new(),
                false => format!(" ({})", others.join("; ")),
            };
            out.push(format!("{}: {first}{}{others}", premise.name(), f.what));
        }
        if mine.len() > MOST_SHOWN {
            out.push(format!("{}: and {} more", premise.name(), mine.len() - MOST_SHOWN));
        }
    }
    out
}

/// Tries schedules; the exit code is that of the first finding.
fn explore(
    args: &VerifyArgs,
    subject: &Subject,
    undisturbed: &Trial,
    known: Option<Box<Known>>,
) -> Result<ExitCode> {
    if let Some(known) = &known
        && let Some((_, error)) = exhaustive(known, subject, undisturbed)?
    {
        eprintln!("{error}");
        return Ok(ExitCode::from(error.class.exit_code()));
    }
    for strategy in [Strategy::Adversarial, Strategy::Jitter] {
        let campaign = Campaign {
            subject,
            undisturbed,
            strategy,
            seeds: 0..args.explore,
            shard: (0, 1),
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mut book = Book::none();
        let tally = match &known {
            Some(known) => {
                let fast = Fast::new(&known.skeleton, false, subject, undisturbed, strategy);
                campaign.run_by(
                    &mut book,
                    || {
                        let mut runner = fast.runner();
                        move |seed| runner.line(seed)
                    },
                    |_| {},
                )?
            }
            None => campaign.run(&mut book, |_| {})?,
        };
        if let Some((kind, (_, seed))) = tally.findings.iter().next() {
            println!("a schedule with {kind}: strategy {strategy:?}, seed {seed}");
            let make = || Schedule::of_seed(strategy, *seed, &undisturbed.plain);
            let trial = subject.run(make)?;
            if let Some(error) = subject.judge(&trial, undisturbed) {
                eprintln!("{error}");
                return Ok(ExitCode::from(error.class.exit_code()));
            }
        }
        println!("{} schedules by {strategy:?}: no finding", tally.done);
    }
    Ok(ExitCode::from(ErrorClass::CheckFailed.exit_code()))
}

/// Goes through all classes of schedules and says what it saw; gives the first finding that the
/// machine confirms.
///
/// # Errors
/// The machine cannot be started.
pub fn exhaustive(
    known: &Known,
    subject: &Subject,
    undisturbed: &Trial,
) -> Result<Option<(crate::explore::Delays, Error)>> {
    let (sk, proof) = (&known.skeleton, &known.proof);
    let bound = Bound::default();
    let found = classes::explore(sk, proof, bound, &subject.interrupt);
    let all = match (found.complete, proof.graph.queue_orders.is_empty()) {
        (true, true) => "these are all".to_string(),
        (true, false) => "these are all with the jobs of each queue in this order".to_string(),
        (false, _) => format!(
            "not all: stopped at {} classes, {} steps (bounds {} and {})",
            found.classes, found.moves, bound.classes, bound.moves
        ),
    };
    println!(
        "{} classes of equivalent schedules, {} of them end in a deadlock; {all}",
        found.classes, found.deadlocks
    );
    let mut first = None;
    for fault in &found.faults {
        let text = confirm::describe(sk, &known.machine, fault.0);
        match confirm::confirm(sk, proof, subject, undisturbed, fault)? {
            Some(finding) => {
                println!("  {text}: confirmed by the machine");
                first = Some(finding);
                break;
            }
            None => println!("  {text}: in an order of steps that the machine does not show"),
        }
    }
    Ok(first)
}
