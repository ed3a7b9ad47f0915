"""From text to machine code and back. Every tool comes from a wheel or from PATH (`tools`).

`nvrtc`         CUDA text to a cubin, in this process, without a GPU; `nvcc` the same by another program
`compilation`   what a compilation is, whoever does it; `comparison` what the two made of one text
`cubin`         registers, shared memory, stack and code of its kernels; `elf` the image, `lines` its lines
`sass`          the code disassembled, in batches
`instructions`  one instruction and its kind of work; `operands` which registers it reads and writes
`flow`          basic blocks and loops
`host_cxx`      the C++ compiler of this machine
`agreement`     what the driver says of a loaded kernel against what its image says
`driver`        which CUDA the driver knows, and whether it loads what is compiled here
`pycuda_install` builds PyCUDA where there is neither toolkit nor driver; `driver_stub` what it links with
`commands`      another program, run within limits
"""
