//! The sync skeleton against the machine: the same changes of events and semaphores, by the same
//! instructions, in the same order and at the same ticks, in the undisturbed run and in disturbed
//! ones, for every program of `programs/` that has a skeleton.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tpbemu::cli::run::load;
use tpbemu::explore::{Delays, Plain, Schedule, Strategy, Subject};
use tpbemu::machine::{self, Machine, MachineConfig, Options, Races};
use tpbemu::skeleton::exec::{Executor, Observe};
use tpbemu::skeleton::extract::{Extracted, extract};
use tpbemu::skeleton::{ENGINES, Skeleton};
use tpbemu::sync::SyncId;
use tpbemu::trace::tee::Shared;
use tpbemu::trace::{Record, Recorder};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn programs() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for dir in std::fs::read_dir(root().join("programs")).unwrap() {
        let dir = dir.unwrap().path();
        for file in std::fs::read_dir(&dir).into_iter().flatten() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|e| e == "tpb") {
                all.push(path);
            }
        }
    }
    all.sort();
    all
}

fn subject(path: &Path) -> Subject {
    let program = Arc::new(load(path, None).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
    Subject {
        config: Arc::new(MachineConfig::builtin(program.generation)),
        program,
        timing_only: true,
        max_cycles: 1_000_000_000,
        interrupt: Arc::new(AtomicBool::new(false)),
        threads: 0,
    }
}

/// A change: tick, which, value, by whom.
type Change = (u64, SyncId, u32, (u16, u64));

#[derive(Default)]
struct Changes(Vec<Change>);

impl Recorder for Changes {
    fn record(&mut self, record: &Record) {
        if let Record::Sync(s) = record {
            self.0.push((s.tick, s.id, s.value, s.by));
        }
    }
}

fn on_machine(subject: &Subject, schedule: impl Fn() -> Schedule) -> (Vec<Change>, u64, bool) {
    let changes = Shared::new(Changes::default());
    let options = || Options {
        max_cycles: Some(subject.max_cycles),
        races: Races::Ignore,
        check_unwritten: false,
        timing_only: true,
        perturb: Some(Box::new(schedule())),
        ..Options::default()
    };
    let record = |_: &_, _: &Machine| -> Vec<Box<dyn Recorder>> { vec![Box::new(changes.clone())] };
    let (program, config) = (Arc::clone(&subject.program), Arc::clone(&subject.config));
    let result = machine::run(program, config, options, record, false).unwrap();
    let deadlock = result.finished.error.is_some_and(|e| e.class == tpbemu::ErrorClass::Deadlock);
    (changes.with(|c| std::mem::take(&mut c.0)), result.finished.end, deadlock)
}

struct Seen<'a>(&'a Skeleton, Vec<Change>);

impl Observe for Seen<'_> {
    fn changed(&mut self, tick: u64, id: u16, value: u32, by: (u16, u32)) {
        let sk = self.0;
        let index = if usize::from(by.0) < ENGINES {
            u64::from(by.1)
        } else {
            // the machine names the last transfer of a job
            let last = sk.jobs[by.1 as usize].transfers.end as usize;
            u64::from(sk.works[last - 1].number)
        };
        self.1.push((tick, sk.ids[usize::from(id)], value, (by.0, index)));
    }
}

fn compare(path: &Path, seeds: u64) -> Option<usize> {
    compare_subject(&subject(path), path, seeds)
}

fn compare_subject(subject: &Subject, path: &Path, seeds: u64) -> Option<usize> {
    let sk = match extract(subject).unwrap() {
        Extracted::Skeleton(sk, _) => sk,
        Extracted::Refused(why) => {
            println!("{}: no skeleton: {why}", path.display());
            return None;
        }
        Extracted::Failed(e) => {
            println!("{}: {}", path.display(), e.message.lines().next().unwrap_or(""));
            return None;
        }
    };
    let probe = subject.run_with(Schedule::probe, Races::Ignore).unwrap();
    let plain: Plain = probe.plain;
    let mut executor = Executor::new(&sk);
    let mut runs = 0;
    let strategies = [Strategy::Jitter, Strategy::Pct, Strategy::Adversarial];
    let seeded = (0..seeds).flat_map(|seed| strategies.map(|s| Some((s, seed))));
    for choice in std::iter::once(None).chain(seeded) {
        let make = || match choice {
            None => Schedule::listed(Delays::new()),
            Some((strategy, seed)) => Schedule::of_seed(strategy, seed, &plain),
        };
        let (expected, ticks, deadlock) = on_machine(subject, make);
        let mut seen = Seen(&sk, Vec::new());
        let outcome = executor.run(&mut &make(), &mut seen);
        let name = format!("{} {choice:?}", path.display());
        for (k, (a, b)) in expected.iter().zip(&seen.1).enumerate() {
            assert_eq!(a, b, "{name}: change {k} of {}", expected.len());
        }
        assert_eq!(expected.len(), seen.1.len(), "{name}");
        assert_eq!((outcome.ticks, outcome.deadlock), (ticks, deadlock), "{name}");
        runs += 1;
    }
    Some(runs)
}

/// What no program of `programs/` has: tiles of PE that work at the same time under the power
/// limit, DVE and POOL on their shared bus, copies with descriptors made in software.
#[test]
fn the_skeleton_follows_the_machine_where_engines_share_resources() {
    let mut text = String::from(
        ".generation v3\n.tensor w sbuf bf16[128, 128] = fill(1)\n\
         .tensor x sbuf bf16[128, 512] = fill(1)\n.tensor acc psum fp32[128, 2048] = fill(0)\n\
         .tensor a sbuf fp32[128, 512] = fill(1)\n.tensor b sbuf fp32[128, 512]\n\
         .tensor c sbuf fp32[128, 512]\n.tensor h hbm bf16[128, 128] = fill(1)\n\
         .tensor t sbuf bf16[128, 128]\n\
         .semaphore pe, dve, pool, dma\n.stream PE\n",
    );
    for k in 0..12 {
        let (row, bank) = (k % 4, k % 4);
        let tile = format!("num_active_rows=32 num_active_cols=32 row_grp={} col_grp=1", 1 << row);
        text += &format!(
            "LDWEIGHTS src=bf16@w+part({0})+62[-1][32] {tile}\n\
             MATMUL src=bf16@x+part({0})[1][{1}] dst=@acc+bank({bank})[1][{1}] {tile} $S[pe]++@complete\n",
            32 * row,
            128 + 32 * k
        );
    }
    text += ".stream DVE\n.repeat 6 i\nCOPY src=fp32@a[1][512] dst=fp32@b[1][512] \
             num_active_channels=128 $S[dve]++@complete\n.end\n\
             .stream ACT\nEVENT_SEMAPHORE $S[pe]>=3\nNOP $S[dma]>=2\n\
             .stream POOL\n.repeat 6 i\nMEMSET dst=fp32@c[1][512] dst_element_count=512 set_value=0 \
             num_active_channels=128 $S[pool]++@complete\n.end\n";
    for _ in 0..2 {
        text += "DMAMEMCPY semaphore=dma sem_increment=1 src_start_addr=h src_step_elem=[1,0] \
                 src_num_elem=[128,1] src_elem_size=256 dst_start_addr=0x2000000000+t \
                 dst_step_elem=[1024,0] dst_num_elem=[128,1] dst_elem_size=256 in_dtype=bf16 \
                 out_dtype=bf16\n";
    }
    let name = Path::new("shared.tpb");
    let program = tpbemu::program::asm::assemble(name, &text, &tpbemu::program::asm::Disk);
    let program = Arc::new(program.unwrap_or_else(|e| panic!("{e}")));
    for limit in [false, true] {
        let mut config = MachineConfig::builtin(program.generation);
        config.power.limit_pe = limit;
        let subject = Subject {
            config: Arc::new(config),
            program: Arc::clone(&program),
            timing_only: true,
            max_cycles: 1_000_000_000,
            interrupt: Arc::new(AtomicBool::new(false)),
            threads: 0,
        };
        let runs = compare_subject(&subject, name, 8);
        assert_eq!(runs, Some(25), "limit {limit}");
    }
}

fn compare_all(seeds: u64) {
    let (mut compared, mut runs, mut without) = (0, 0, Vec::new());
    for path in programs() {
        match compare(&path, seeds) {
            Some(n) => {
                compared += 1;
                runs += n;
            }
            None => without.push(path.file_stem().unwrap().to_string_lossy().into_owned()),
        }
    }
    println!("{compared} programs, {runs} schedules; no skeleton: {}", without.join(", "));
    assert!(compared >= 60, "{compared} programs compared");
}

#[test]
fn the_skeleton_follows_the_machine_tick_by_tick() {
    compare_all(4);
}

#[test]
#[ignore = "minutes"]
fn the_skeleton_follows_the_machine_on_many_schedules() {
    compare_all(100);
}
