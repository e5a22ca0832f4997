//! Recorder, exporters and summary of a run.
