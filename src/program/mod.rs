//! Program container, loader and tensors.
