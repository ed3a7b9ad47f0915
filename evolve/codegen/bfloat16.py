"""Single precision kept in two bytes, in integer instructions: NVRTC does not bring along the header with the
conversions, and some architectures lack them."""

ROUND = (
    "to_bfloat16",
    """\
// The bfloat16 nearest to x, ties to even.
__device__ __forceinline__ unsigned short to_bfloat16(float x) {
    const unsigned int bits = __float_as_uint(x);
    return (unsigned short)(x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
""",
)
WIDEN = (
    "from_bfloat16",
    """\
__device__ __forceinline__ float from_bfloat16(unsigned short x) {
    return __uint_as_float((unsigned int)x << 16);
}
""",
)
