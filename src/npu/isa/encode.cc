#include "src/npu/isa/encode.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "src/base/check.h"
#include "src/base/message.h"

namespace lw::npu {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int kExtCode = 63;
constexpr std::string_view kMagic("LWNPU\0\1\0", 8);
constexpr size_t kHeaderBytes = 16;        // of an image
constexpr size_t kMostWords = size_t{1} << 24;

// 256 bits that are filled or read from the lowest up.
struct Word {
  uint64_t parts[4] = {};
  int at = 0;

  void put(uint64_t value, int bits) {
    const int part = at / 64, shift = at % 64;
    parts[part] |= value << shift;
    if (shift + bits > 64) parts[part + 1] |= value >> (64 - shift);
    at += bits;
  }
  uint64_t get(int bits) {
    const int part = at / 64, shift = at % 64;
    uint64_t value = parts[part] >> shift;
    if (shift + bits > 64) value |= parts[part + 1] << (64 - shift);
    at += bits;
    return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1);
  }
  bool rest_is_zero() {
    for (; at < 256; at += 64 - at % 64) {
      if (parts[at / 64] >> (at % 64) != 0) return false;
    }
    return true;
  }
  void append_to(std::string* bytes) const {
    bytes->append(reinterpret_cast<const char*>(parts), sizeof parts);
  }
  static Word read(const char* bytes) {
    Word word;
    std::memcpy(word.parts, bytes, sizeof word.parts);
    return word;
  }
};

template <class T>
uint64_t raw(T value, int bits) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<uint64_t>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value)) & ((uint64_t{1} << bits) - 1);
  } else {
    return value;
  }
}

// False: the number stands for nothing.
template <class T>
bool from_raw(uint64_t number, T* value) {
  if constexpr (std::is_enum_v<T>) {
    if (number >= static_cast<uint64_t>(kCount<T>)) return false;
    *value = static_cast<T>(number);
  } else {
    *value = static_cast<T>(number);
  }
  return true;
}

void put_tokens(const std::array<uint8_t, 2>& ids, Word* word) {
  for (const uint8_t id : ids) {
    word->put(id == kNoToken ? 0 : id, 6);
    word->put(id != kNoToken, 1);
  }
}

constexpr size_t kMostFields = 24;

template <class T>
std::array<uint64_t, kMostFields> usual_fields() {
  const T usual;
  std::array<uint64_t, kMostFields> fields = {};
  size_t i = 0;
  T::fields(usual, [&](BitField bits, const auto& field) {
    CHECK(i < kMostFields);
    fields[i++] = raw(field, bits.bits);
  });
  return fields;
}

// One of its extension fields is not its default.
template <class T>
bool has_extension(const T& body) {
  static const std::array<uint64_t, kMostFields> usual = usual_fields<T>();
  bool differs = false;
  size_t i = 0;
  T::fields(body, [&](BitField bits, const auto& field) {
    differs |= bits.extension && raw(field, bits.bits) != usual[i];
    ++i;
  });
  return differs;
}

absl::Status wrong_word(size_t index, const std::string& why) {
  return absl::InvalidArgumentError(concat("word ", index, ": ", why));
}

}  // namespace

absl::StatusOr<std::string> encode(const Program& program) {
  std::string bytes;
  bytes.reserve(program.size() * kWordBytes * 2);
  for (size_t i = 0; i < program.size(); ++i) {
    const Instruction& one = program[i];
    Word word, extension;
    word.put(one.op().code, 6);
    word.put(static_cast<uint64_t>(one.op().engine), 2);
    put_tokens(one.wait, &word);
    put_tokens(one.signal, &word);
    word.put(static_cast<uint64_t>(one.dtype), 3);
    word.at = 64;
    extension.put(kExtCode, 6);
    extension.at = 64;
    std::string wrong;
    for (const auto& ids : {one.wait, one.signal}) {
      for (const uint8_t id : ids) {
        if (id <= 63 || id == kNoToken) continue;
        wrong = concat("semaphore ", int{id}, " has more than 6 bits");
      }
      if (ids[0] == kNoToken && ids[1] != kNoToken) wrong = "a second token without a first";
    }
    const bool extended = std::visit([&](const auto& body) {
      std::remove_cvref_t<decltype(body)>::fields(body, [&](BitField bits, const auto& field) {
        const uint64_t number = raw(field, bits.bits);
        if (number >> bits.bits != 0 && wrong.empty()) {
          wrong = concat(bits.name, " = ", number, " has more than ", bits.bits, " bits");
        }
        if (wrong.empty()) (bits.extension ? extension : word).put(number, bits.bits);
      });
      return has_extension(body);
    }, one.body);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(
          concat("instruction ", i, " (", one.op().name, "): ", wrong));
    }
    word.append_to(&bytes);
    if (extended) extension.append_to(&bytes);
  }
  return bytes;
}

absl::StatusOr<Program> decode(std::string_view words) {
  if (words.size() % kWordBytes != 0) {
    return absl::InvalidArgumentError(
        concat(words.size(), " bytes are no whole number of words of ", kWordBytes));
  }
  Program program;
  const size_t count = words.size() / kWordBytes;
  for (size_t i = 0; i < count; ++i) {
    Word word = Word::read(words.data() + i * kWordBytes);
    Instruction one;
    const int code = static_cast<int>(word.get(6));
    if (code == kExtCode) return wrong_word(i, "an extension without an instruction before it");
    const auto is = [code](const OpRow& op) { return op.code == code; };
    if (!make_body(is, &one.body)) return wrong_word(i, concat("no instruction has op ", code));
    if (word.get(2) != static_cast<uint64_t>(one.op().engine)) {
      return wrong_word(i, concat(one.op().name, " on another engine than its own"));
    }
    for (std::array<uint8_t, 2>* ids : {&one.wait, &one.signal}) {
      for (uint8_t& id : *ids) {
        const uint64_t number = word.get(6);
        const bool valid = word.get(1) != 0;
        if (!valid && number != 0) return wrong_word(i, "a token without its valid bit");
        id = valid ? static_cast<uint8_t>(number) : kNoToken;
      }
      if ((*ids)[0] == kNoToken && (*ids)[1] != kNoToken) {
        return wrong_word(i, "a second token without a first");
      }
    }
    const uint64_t dtype = word.get(3);
    if (dtype > 3) return wrong_word(i, concat("no type has number ", dtype));
    one.dtype = static_cast<Dtype>(dtype);
    if (word.get(64 - word.at) != 0) return wrong_word(i, "reserved bits of the header are not 0");

    Word extension;
    bool extended = i + 1 < count;
    if (extended) extension = Word::read(words.data() + (i + 1) * kWordBytes);
    extended = extended && (extension.parts[0] & 63) == kExtCode;
    if (extended && extension.parts[0] != kExtCode) {
      return wrong_word(i + 1, "the header of an extension is not only its op");
    }
    extension.at = 64;
    std::string wrong;
    const bool differs = std::visit([&](auto& body) {
      std::remove_cvref_t<decltype(body)>::fields(body, [&](BitField bits, auto& field) {
        if (bits.extension && !extended) return;
        const uint64_t number = (bits.extension ? extension : word).get(bits.bits);
        if (!from_raw(number, &field)) wrong = concat(bits.name, " cannot be ", number);
      });
      return has_extension(body);
    }, one.body);
    if (!wrong.empty()) return wrong_word(i, wrong);
    if (!word.rest_is_zero()) return wrong_word(i, "bits behind its fields are not 0");
    if (extended && !extension.rest_is_zero()) {
      return wrong_word(i + 1, "bits behind its fields are not 0");
    }
    if (extended && !differs) return wrong_word(i + 1, "an extension that says nothing");
    i += extended;
    program.push_back(one);
  }
  return program;
}

absl::StatusOr<std::string> make_image(const Program& program) {
  ASSIGN_OR_RETURN(const std::string words, encode(program));
  std::string image(kMagic);
  const uint64_t count = words.size() / kWordBytes;
  for (int i = 0; i < 8; ++i) image.push_back(static_cast<char>(count >> (8 * i)));
  return image + words;
}

bool is_image(std::string_view bytes) { return bytes.substr(0, 5) == kMagic.substr(0, 5); }

absl::StatusOr<Program> read_image(std::string_view bytes) {
  if (!is_image(bytes)) return absl::InvalidArgumentError("not an image of a program for the NPU");
  if (bytes.size() < kHeaderBytes || bytes.substr(0, 8) != kMagic) {
    return absl::InvalidArgumentError("an image of another version, or cut short");
  }
  uint64_t count = 0;
  for (int i = 0; i < 8; ++i) {
    count |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[8 + i])) << (8 * i);
  }
  if (count > kMostWords || bytes.size() != kHeaderBytes + count * kWordBytes) {
    return absl::InvalidArgumentError(concat("the image says ", count, " words, but has ",
                                             bytes.size() - kHeaderBytes, " bytes of them"));
  }
  return decode(bytes.substr(kHeaderBytes));
}

}  // namespace lw::npu
