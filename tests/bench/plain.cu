// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The access pattern that is common in the field: 2x2 pixels a thread, two bytes a load, the
// nearest chroma sample. Written for comparison only.

struct PlainMatrix {
  float m[3][4];
};

__device__ inline unsigned char code(float v) {
  return static_cast<unsigned char>(fminf(fmaxf(v + 0.5f, 0.0f), 255.0f));
}

__device__ inline float apply(const float (&m)[4], float a, float b, float c) {
  return m[0] * a + m[1] * b + m[2] * c + m[3];
}

template <typename Store>
__device__ inline void plain_420(const unsigned char* luma, unsigned pitch, float u, float v, int x,
                                 int y, const PlainMatrix& m, Store store) {
  for (int r = 0; r < 2; ++r) {
    const uchar2 l = *reinterpret_cast<const uchar2*>(luma + (y + r) * pitch + x);
    store(r, 0, code(apply(m.m[0], l.x, u, v)), code(apply(m.m[1], l.x, u, v)),
          code(apply(m.m[2], l.x, u, v)));
    store(r, 1, code(apply(m.m[0], l.y, u, v)), code(apply(m.m[1], l.y, u, v)),
          code(apply(m.m[2], l.y, u, v)));
  }
}

#define POSITION                                             \
  const int x = (blockIdx.x * blockDim.x + threadIdx.x) * 2; \
  const int y = (blockIdx.y * blockDim.y + threadIdx.y) * 2; \
  if (x >= width || y >= height)                             \
    return;

extern "C" __global__ void plain_nv12_rgba(const unsigned char* luma, const unsigned char* chroma,
                                           unsigned pitch, unsigned char* out, unsigned out_pitch,
                                           int width, int height, PlainMatrix m) {
  POSITION
  const uchar2 c = *reinterpret_cast<const uchar2*>(chroma + (y / 2) * pitch + x);
  uchar4 px[2][2];
  plain_420(luma, pitch, c.x, c.y, x, y, m,
            [&](int r, int i, unsigned char a, unsigned char b, unsigned char d) {
              px[r][i] = make_uchar4(a, b, d, 255);
            });
  for (int r = 0; r < 2; ++r)
    *reinterpret_cast<uint2*>(out + (y + r) * out_pitch + 4 * x) = make_uint2(
        *reinterpret_cast<unsigned*>(&px[r][0]), *reinterpret_cast<unsigned*>(&px[r][1]));
}

extern "C" __global__ void plain_nv12_rgb(const unsigned char* luma, const unsigned char* chroma,
                                          unsigned pitch, unsigned char* out, unsigned out_pitch,
                                          int width, int height, PlainMatrix m) {
  POSITION
  const uchar2 c = *reinterpret_cast<const uchar2*>(chroma + (y / 2) * pitch + x);
  plain_420(luma, pitch, c.x, c.y, x, y, m,
            [&](int r, int i, unsigned char a, unsigned char b, unsigned char d) {
              unsigned char* p = out + (y + r) * out_pitch + 3 * (x + i);
              p[0] = a, p[1] = b, p[2] = d;
            });
}

extern "C" __global__ void plain_i420_rgbp(const unsigned char* luma, const unsigned char* u,
                                           const unsigned char* v, unsigned pitch,
                                           unsigned chroma_pitch, unsigned char* out,
                                           unsigned out_pitch, unsigned plane, int width,
                                           int height, PlainMatrix m) {
  POSITION
  const unsigned at = (y / 2) * chroma_pitch + x / 2;
  unsigned char px[3][2][2];
  plain_420(luma, pitch, u[at], v[at], x, y, m,
            [&](int r, int i, unsigned char a, unsigned char b, unsigned char d) {
              px[0][r][i] = a, px[1][r][i] = b, px[2][r][i] = d;
            });
  for (int k = 0; k < 3; ++k)
    for (int r = 0; r < 2; ++r)
      *reinterpret_cast<uchar2*>(out + k * plane + (y + r) * out_pitch + x) =
          make_uchar2(px[k][r][0], px[k][r][1]);
}

extern "C" __global__ void plain_p010_rgba(const unsigned char* luma, const unsigned char* chroma,
                                           unsigned pitch, unsigned char* out, unsigned out_pitch,
                                           int width, int height, PlainMatrix m) {
  POSITION
  const ushort2 c = *reinterpret_cast<const ushort2*>(chroma + (y / 2) * pitch + 2 * x);
  const float u = c.x >> 6, v = c.y >> 6;
  for (int r = 0; r < 2; ++r) {
    const ushort2 l = *reinterpret_cast<const ushort2*>(luma + (y + r) * pitch + 2 * x);
    const float a = l.x >> 6, b = l.y >> 6;
    const uchar4 left = make_uchar4(code(apply(m.m[0], a, u, v)), code(apply(m.m[1], a, u, v)),
                                    code(apply(m.m[2], a, u, v)), 255);
    const uchar4 right = make_uchar4(code(apply(m.m[0], b, u, v)), code(apply(m.m[1], b, u, v)),
                                     code(apply(m.m[2], b, u, v)), 255);
    uchar4* p = reinterpret_cast<uchar4*>(out + (y + r) * out_pitch + 4 * x);
    p[0] = left, p[1] = right;
  }
}

extern "C" __global__ void plain_rgba_nv12(const unsigned char* in, unsigned in_pitch,
                                           unsigned char* luma, unsigned char* chroma,
                                           unsigned pitch, int width, int height, PlainMatrix m) {
  POSITION
  float sum[3] = {};
  for (int r = 0; r < 2; ++r) {
    unsigned char l[2];
    for (int i = 0; i < 2; ++i) {
      const uchar4 c = *reinterpret_cast<const uchar4*>(in + (y + r) * in_pitch + 4 * (x + i));
      l[i] = code(apply(m.m[0], c.x, c.y, c.z));
      sum[0] += c.x, sum[1] += c.y, sum[2] += c.z;
    }
    *reinterpret_cast<uchar2*>(luma + (y + r) * pitch + x) = make_uchar2(l[0], l[1]);
  }
  *reinterpret_cast<uchar2*>(chroma + (y / 2) * pitch + x) =
      make_uchar2(code(apply(m.m[1], sum[0] / 4, sum[1] / 4, sum[2] / 4)),
                  code(apply(m.m[2], sum[0] / 4, sum[1] / 4, sum[2] / 4)));
}
