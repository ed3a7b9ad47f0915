// Accesses whose exact trace every host compiler must report (conformance.py holds the expectation).
// Host compilers are held to it by `evolve doctor` and the tests; widen it when device text uses something new.
// Each line that touches memory says so in its comment: r or w, buffer, bytes. No line loads a place twice:
// whether a repeated load is kept is the compiler's choice.
struct triple { float a, b, c; };

__device__ float total(float4 v) { return v.x + v.y + v.z + v.w; }

extern "C" __global__ void conformance(const float* __restrict__ x, float* __restrict__ y, const double* d,
                                       unsigned char* bytes, const short* halves, int* counts, triple* t3, int n) {
    __shared__ float s[8];
    __shared__ float4 q[2][4];
    int t = threadIdx.x + blockIdx.x * blockDim.x;
    if (t >= n) return;
    float a = x[t];                                                   // 15 r x 4
    y[t] = a;                                                         // 16 w y 4
    float4 v = *reinterpret_cast<const float4*>(x + 4 * t);           // 17 r x 16
    v.x += 1.0f;
    *reinterpret_cast<float4*>(y + 16 + 4 * t) = v;                   // 19 w y 16
    float4 m = make_float4(a, v.y, v.z, 2.0f);
    reinterpret_cast<float4*>(y)[8 + t] = m;                          // 21 w y 16
    float2 h = reinterpret_cast<const float2*>(x)[t];                 // 22 r x 8
    reinterpret_cast<float2*>(y + 64)[t] = make_float2(h.y, h.x);     // 23 w y 8
    float z = reinterpret_cast<const float4*>(x)[t].z;                // 24 r x 4
    reinterpret_cast<float4*>(y + 80)[t].w = z;                       // 25 w y 4
    double e = d[t];                                                  // 26 r d 8
    bytes[t] = (unsigned char)e;                                      // 27 w bytes 1
    short k = halves[t];                                              // 28 r halves 2
    y[100 + t] += k;                                                  // 29 r y 4, w y 4
    s[threadIdx.x] = a;                                               // 30 w s 4
    q[1][threadIdx.x] = v;                                            // 31 w q 16
    __syncthreads();
    float4 u = q[1][3 - threadIdx.x];                                 // 33 r q 16
    float w = s[threadIdx.x ^ 1];                                     // 34 r s 4
    y[110 + t] = total(u) + w;                                        // 35 w y 4
    float r[4];
#pragma unroll
    for (int i = 0; i < 4; i++) r[i] = __ldg(x + 4 * i + t);          // 38 r x 4, four times
    float4 g[2];
    for (int i = 0; i < 2; i++) g[i] = reinterpret_cast<const float4*>(x)[2 * i + (t & 1)];  // 40 r x 16, twice
    float sum = r[0] + r[1] + r[2] + r[3] + total(g[0]) + total(g[1]);
    for (int o = 1; o < 4; o *= 2) sum += __shfl_xor_sync(0xfu, sum, o);
    y[120 + t] = sum;                                                 // 43 w y 4
    atomicAdd(&counts[0], 1);                                         // 44 a counts 4
    triple p = t3[t];                                                 // 45 r t3 4, three times
    p.b = sum;
    t3[t] = p;                                                        // 47 w t3 4, three times
}
