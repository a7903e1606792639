// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The oracle against GStreamer's own converter: its 16-bit pipe, which is good to a fraction of an
// 8-bit code, and as a tripwire its 8-bit one, which is not. Two that were written apart and agree.
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "tests/oracle/oracle.h"

namespace {

struct Frame {
  GstVideoInfo info;
  std::vector<guint8> bytes;
  GstVideoFrame frame;

  Frame(GstVideoFormat format, int width, int height, const char* colorimetry, const char* site) {
    gst_video_info_set_format(&info, format, static_cast<guint>(width), static_cast<guint>(height));
    gst_video_colorimetry_from_string(&info.colorimetry, colorimetry);
    if (site)
      info.chroma_site = gst_video_chroma_site_from_string(site);
    bytes.resize(GST_VIDEO_INFO_SIZE(&info));
    memset(&frame, 0, sizeof(frame));
    frame.info = info;
    for (guint k = 0; k < GST_VIDEO_INFO_N_PLANES(&info); ++k)
      frame.data[k] = bytes.data() + info.offset[k];
  }
};

// `in` through GStreamer's converter, without dither, as linear chroma.
void convert(Frame& in, Frame& out) {
  GstStructure* config = gst_structure_new(
      "GstVideoConverter", GST_VIDEO_CONVERTER_OPT_DITHER_METHOD, GST_TYPE_VIDEO_DITHER_METHOD,
      GST_VIDEO_DITHER_NONE, GST_VIDEO_CONVERTER_OPT_CHROMA_RESAMPLER_METHOD,
      GST_TYPE_VIDEO_RESAMPLER_METHOD, GST_VIDEO_RESAMPLER_METHOD_LINEAR,
      GST_VIDEO_CONVERTER_OPT_THREADS, G_TYPE_UINT, 1u, nullptr);
  GstVideoConverter* converter = gst_video_converter_new(&in.info, &out.info, config);
  ASSERT_NE(converter, nullptr);
  gst_video_converter_frame(converter, &in.frame, &out.frame);
  gst_video_converter_free(converter);
}

oracle::Picture picture(const Frame& f, oracle::Colour colour) {
  oracle::Picture p;
  p.format = gst_video_format_to_string(GST_VIDEO_INFO_FORMAT(&f.info));
  p.width = GST_VIDEO_INFO_WIDTH(&f.info), p.height = GST_VIDEO_INFO_HEIGHT(&f.info);
  p.colour = colour;
  for (guint k = 0; k < GST_VIDEO_INFO_N_PLANES(&f.info); ++k) {
    p.plane[k] = f.bytes.data() + f.info.offset[k];
    p.stride[k] = f.info.stride[k];
  }
  return p;
}

// 8-bit limited codes, luma 16..235 and chroma 16..240, as codes of `bits`: times 4 is exact.
void fill(Frame& f, int bits, unsigned seed) {
  std::mt19937 generator(seed);
  for (guint c = 0; c < 3; ++c) {
    auto* row = static_cast<guint8*>(f.frame.data[c]);
    const int width = GST_VIDEO_FORMAT_INFO_SCALE_WIDTH(f.info.finfo, c, f.info.width);
    const int height = GST_VIDEO_FORMAT_INFO_SCALE_HEIGHT(f.info.finfo, c, f.info.height);
    for (int y = 0; y < height; ++y, row += f.info.stride[c]) {
      for (int x = 0; x < width; ++x) {
        const unsigned v = 16 + static_cast<unsigned>(generator() % (c == 0 ? 220 : 225));
        if (bits == 8)
          row[x] = static_cast<guint8>(v);
        else
          reinterpret_cast<guint16*>(row)[x] = static_cast<guint16>(v << (bits - 8));
      }
    }
  }
}

struct Case {
  const char* colorimetry;
  oracle::Matrix matrix;
};

class Deep : public testing::TestWithParam<Case> {};

// Codes of ARGB64 are 257 times those of 8 bits.
double worst_argb64(const Frame& out, const oracle::Components& exact16) {
  double worst = 0;
  for (int y = 0; y < out.info.height; ++y) {
    const auto* row = reinterpret_cast<const guint16*>(out.bytes.data() + y * out.info.stride[0]);
    for (int x = 0; x < out.info.width; ++x) {
      for (int k = 0; k < 3; ++k) {
        const double want = exact16.c[k].value[static_cast<size_t>(y * out.info.width + x)];
        worst = std::max(worst, std::abs(row[4 * x + 1 + k] - want) / 257);
      }
    }
  }
  return worst;
}

TEST_P(Deep, MatricesAgreeToAFractionOfACode) {
  Frame in(GST_VIDEO_FORMAT_Y444_10LE, 128, 64, GetParam().colorimetry, nullptr);
  Frame out(GST_VIDEO_FORMAT_ARGB64, 128, 64, GST_VIDEO_COLORIMETRY_SRGB, nullptr);
  out.info.colorimetry.primaries = in.info.colorimetry.primaries;
  out.info.colorimetry.transfer = in.info.colorimetry.transfer;
  fill(in, 10, 1);
  convert(in, out);
  const auto exact = oracle::convert(picture(in, {GetParam().matrix, false, {}}), {0, 0, 128, 64},
                                     "GBR_16LE", {oracle::Matrix::Rgb, true, {}});
  EXPECT_LE(worst_argb64(out, exact), 0.75);
}

INSTANTIATE_TEST_SUITE_P(All, Deep,
                         testing::Values(Case{"bt601", oracle::Matrix::Bt601},
                                         Case{"bt709", oracle::Matrix::Bt709},
                                         Case{"bt2020", oracle::Matrix::Bt2020},
                                         Case{"smpte240m", oracle::Matrix::Smpte240m}));

TEST(DeepChroma, SitingAcrossAgreesToACode) {
  // Never co-sited down: videoconvert has no filter for that.
  for (const bool left : {false, true}) {
    Frame in(GST_VIDEO_FORMAT_I420_10LE, 128, 64, "bt709", left ? "mpeg2" : "jpeg");
    Frame out(GST_VIDEO_FORMAT_ARGB64, 128, 64, "1:1:5:1", nullptr);
    fill(in, 10, 2);
    convert(in, out);
    const auto exact =
        oracle::convert(picture(in, {oracle::Matrix::Bt709, false, {left, false, false}}),
                        {0, 0, 128, 64}, "GBR_16LE", {oracle::Matrix::Rgb, true, {}});
    const auto other =
        oracle::convert(picture(in, {oracle::Matrix::Bt709, false, {!left, false, false}}),
                        {0, 0, 128, 64}, "GBR_16LE", {oracle::Matrix::Rgb, true, {}});
    EXPECT_LE(worst_argb64(out, exact), 1.0) << left;
    EXPECT_GE(worst_argb64(out, other), 5.0) << "siting makes no difference";
  }
}

TEST(Shallow, EightBitsAreNearEnoughToTellAMatrix) {
  Frame in(GST_VIDEO_FORMAT_Y444, 128, 64, "bt601", nullptr);
  Frame out(GST_VIDEO_FORMAT_RGBA, 128, 64, "1:1:16:4", nullptr);
  fill(in, 8, 3);
  convert(in, out);
  const auto exact = oracle::convert(picture(in, {oracle::Matrix::Bt601, false, {}}),
                                     {0, 0, 128, 64}, "RGBA", {oracle::Matrix::Rgb, true, {}});
  const auto got = oracle::read(picture(out, {oracle::Matrix::Rgb, true, {}})).components;
  EXPECT_LE(oracle::compare(got, exact).max_error, 7.0);
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
