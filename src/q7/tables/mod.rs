//! Tables of the Vision-Q7 as data.

pub mod seeds;
