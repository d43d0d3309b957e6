// Nothing but a source for the target that makes the precompiled headers of the tests (LLMINFER_PRECOMPILE).
