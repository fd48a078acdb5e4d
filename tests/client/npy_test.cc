// The .npy reader against well-formed, ill-formed and random bytes.
#include "src/api/run/npy.h"

#include <cstring>
#include <fstream>

#include "gtest/gtest.h"
#include "loopwright/program.h"
#include "src/base/rng.h"

namespace lw {
namespace {

std::string npy(int version, const std::string& dict, const std::string& data = "") {
  std::string header = dict + "\n", out("\x93NUMPY", 6);
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    out += static_cast<char>(header.size() >> (8 * i) & 255);
  return out + header + data;
}

Tensor tensor(Type type, std::vector<int64_t> shape) {
  Tensor t;
  t.name = "A";
  t.type = type;
  t.shape = std::move(shape);
  return t;
}

class NpyFile : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "npy_test.npy";
  absl::Status read(const std::string& file, const Tensor& t) {
    std::ofstream(path_, std::ios::binary) << file;
    std::vector<std::byte> data(static_cast<size_t>(bytes(t)));
    return read_npy(path_, t, data.data());
  }
};

TEST(NpyHeader, AllVersionsAndSpellings) {
  for (int version : {1, 2, 3}) {
    const auto header = parse_npy_header(
        npy(version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->descr, "<f4");
    EXPECT_EQ(header->shape, (std::vector<int64_t>{3, 4}));
    EXPECT_FALSE(header->fortran_order);
  }
  EXPECT_TRUE(
      parse_npy_header(npy(1, "{\"shape\":(),\"descr\":\"|b1\",\"fortran_order\":True}")).ok());
  EXPECT_EQ(parse_npy_header(npy(1, "{'descr':'<f4','fortran_order':False,'shape':(7,)}"))->shape,
            std::vector<int64_t>{7});
}

TEST(NpyHeader, NonsenseIsRefused) {
  for (const char* dict :
       {"", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'shape': (3,",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"}) {
    EXPECT_FALSE(parse_npy_header(npy(1, dict)).ok()) << dict;
  }
  EXPECT_FALSE(parse_npy_header("").ok());
  EXPECT_FALSE(
      parse_npy_header(npy(4, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}")).ok());
}

TEST(NpyHeader, RandomBytesNeverCrash) {
  const std::string good = npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }");
  Rng rng(1);
  for (int i = 0; i < 200000; ++i) {
    std::string bytes =
        good.substr(0, static_cast<size_t>(rng.below(static_cast<int64_t>(good.size()) + 1)));
    for (int64_t flips = rng.below(5); flips > 0 && !bytes.empty(); --flips) {
      bytes[static_cast<size_t>(rng.below(static_cast<int64_t>(bytes.size())))] =
          static_cast<char>(rng.next());
    }
    parse_npy_header(bytes).status().IgnoreError();
  }
}

TEST_F(NpyFile, MismatchesSayWhatWasExpectedAndFound) {
  const std::string f4 =
      npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}", std::string(16, 0));
  EXPECT_TRUE(read(f4, tensor(Type::kF32, {2, 2})).ok());
  const std::string type(read(f4, tensor(Type::kF64, {2, 2})).message());
  EXPECT_NE(type.find("f64 ('<f8')"), std::string::npos) << type;
  EXPECT_NE(type.find("'<f4'"), std::string::npos) << type;
  const std::string shape(read(f4, tensor(Type::kF32, {4, 1})).message());
  EXPECT_NE(shape.find("(4, 1)"), std::string::npos) << shape;
  const std::string order(
      read(npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", std::string(16, 0)),
           tensor(Type::kF32, {2, 2})).message());
  EXPECT_NE(order.find("Fortran"), std::string::npos) << order;
  EXPECT_FALSE(read(f4.substr(0, f4.size() - 1), tensor(Type::kF32, {2, 2})).ok());
  EXPECT_FALSE(read(f4 + "x", tensor(Type::kF32, {2, 2})).ok());
  EXPECT_FALSE(read(">f4", tensor(Type::kF32, {2, 2})).ok());
}

TEST_F(NpyFile, EveryTypeSurvivesARoundTrip) {
  for (const TypeRow& row : kTypeRows) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {5}, {2, 3, 4}}) {
      const Tensor t = tensor(row.type, shape);
      std::vector<std::byte> data(static_cast<size_t>(bytes(t))), back(data.size());
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 % 2);
      ASSERT_TRUE(write_npy(path_, t, data.data()).ok());
      const absl::Status status = read_npy(path_, t, back.data());
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(data, back);
    }
  }
}

TEST_F(NpyFile, BrainFloatsAreBitsOfAnyTwoByteKind) {
  for (const char* descr : {"<u2", "|V2"}) {
    const std::string file =
        npy(1, std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (2,)}",
            "abcd");
    EXPECT_TRUE(read(file, tensor(Type::kBF16, {2})).ok()) << descr;
  }
}

}  // namespace
}  // namespace lw
