//! Steps of the integer division: they decode, their arithmetic is not published in full.
//! (wiki: isa/ref/b23-divide)

use super::OpDef;
use super::shape::*;

/// The page gives the shape (four quotient bits a step by compare and subtract) but marks these
/// points as inferred.
const FACT: &str = "how divisor, remainder and phase travel in the register pair between the steps, \
     and the sign of the remainder";
const PAGE: &str = "wiki: isa/ref/b23-divide";

/// Steps of the integer division.
pub(super) static OPS: &[OpDef] = &[
    missing("ivp_divnx16q_4step0", VV_VVI1, FACT, PAGE),
    missing("ivp_divnx16sq_4step0", VV_VVI1, FACT, PAGE),
    missing("ivp_divnx16s_4step0", VV_VVI1, FACT, PAGE),
    missing("ivp_divnx16u_4step0", VV_VVI1, FACT, PAGE),
    missing("ivp_divn_2x32x16s_4step0", VV_VVI1, FACT, PAGE),
    missing("ivp_divn_2x32x16u_4step0", VV_VVI1, FACT, PAGE),
    missing("ivp_divnx16s_4step", VVM_VI1, FACT, PAGE),
    missing("ivp_divnx16s_4stepn", VVM_VI1, FACT, PAGE),
    missing("ivp_divnx16u_4step", VVM_VI1, FACT, PAGE),
    missing("ivp_divnx16u_4stepn", VVM_VI1, FACT, PAGE),
    missing("ivp_divn_2x32x16s_4step", VVM_VI1, FACT, PAGE),
    missing("ivp_divn_2x32x16s_4stepn", VVM_VI1, FACT, PAGE),
    missing("ivp_divn_2x32x16u_4step", VVM_VI1, FACT, PAGE),
    missing("ivp_divn_2x32x16u_4stepn", VVM_VI1, FACT, PAGE),
];
