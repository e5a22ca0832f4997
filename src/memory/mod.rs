//! SBUF, PSUM and HBM: address map, access patterns, footprints.
