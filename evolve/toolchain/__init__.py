"""From text to machine code and back: NVRTC, the cubin's resources, SASS, and a host C++ compiler."""
