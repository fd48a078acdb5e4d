// A SQLite VFS over the system's that fails on demand: from the n-th operation of a kind on, all
// fail until healed. Registered as the default while it lives; only one at a time.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/check.h"

namespace lw {

class FaultyVfs {
 public:
  enum class Fault { kNone, kFull, kWrite, kShortWrite, kSync };

  struct Operation {
    enum Kind { kWrite, kTruncate, kSync, kDelete } kind;
    std::string file;
    int64_t offset;                        // kTruncate: the new size
    std::string bytes;
  };

  FaultyVfs() {
    CHECK(current == nullptr);
    current = this;
    system_ = sqlite3_vfs_find(nullptr);
    vfs_ = *system_;
    vfs_.zName = "faulty";
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + system_->szOsFile;
    vfs_.xOpen = open;
    vfs_.xDelete = remove;
    vfs_.pNext = nullptr;
    CHECK(sqlite3_vfs_register(&vfs_, 1) == SQLITE_OK);
  }
  ~FaultyVfs() {
    sqlite3_vfs_unregister(&vfs_);
    CHECK(sqlite3_vfs_register(system_, 1) == SQLITE_OK);
    current = nullptr;
  }

  void fail(Fault fault, int after) {
    countdown_ = after;
    failed_ = false;
    fault_ = fault;
  }
  void heal() { fault_ = Fault::kNone; }
  bool has_failed() const { return failed_; }

  void record() { recording_ = true; }
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  // The system's file follows in memory.
  struct File {
    sqlite3_file base;
    const char* name;                      // SQLite keeps it alive as long as the file
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static File* self(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
  static sqlite3_file* real(sqlite3_file* file) { return self(file)->real(); }

  // Counts an operation that `fault` may hit.
  bool hits(Fault a, Fault b = Fault::kNone, Fault c = Fault::kNone) {
    const Fault fault = fault_;
    if (fault == Fault::kNone || (fault != a && fault != b && fault != c)) return false;
    if (countdown_-- > 0) return false;
    failed_ = true;
    return true;
  }

  static void note(sqlite3_file* file, Operation::Kind kind, int64_t offset, const void* data,
                   int size) {
    if (!current->recording_ || self(file)->name == nullptr) return;
    current->operations_.push_back({kind, self(file)->name, offset,
                                    std::string(static_cast<const char*>(data), size)});
  }

  static int open(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out) {
    static const sqlite3_io_methods methods = make_methods();
    std::memset(file, 0, sizeof(File));
    self(file)->name = name;
    const int code = current->system_->xOpen(current->system_, name, real(file), flags, out);
    if (real(file)->pMethods != nullptr) file->pMethods = &methods;
    return code;
  }
  static int remove(sqlite3_vfs*, const char* name, int sync_directory) {
    if (current->recording_) current->operations_.push_back({Operation::kDelete, name, 0, ""});
    return current->system_->xDelete(current->system_, name, sync_directory);
  }
  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    if (current->hits(Fault::kFull, Fault::kWrite, Fault::kShortWrite)) {
      if (current->fault_ == Fault::kFull) return SQLITE_FULL;
      if (current->fault_ == Fault::kShortWrite) {
        real(file)->pMethods->xWrite(real(file), data, size / 2, offset);
      }
      return SQLITE_IOERR_WRITE;
    }
    note(file, Operation::kWrite, offset, data, size);
    return real(file)->pMethods->xWrite(real(file), data, size, offset);
  }
  static int sync(sqlite3_file* file, int flags) {
    if (current->hits(Fault::kSync)) return SQLITE_IOERR_FSYNC;
    note(file, Operation::kSync, 0, "", 0);
    return real(file)->pMethods->xSync(real(file), flags);
  }

  static sqlite3_io_methods make_methods() {
    sqlite3_io_methods m;
    std::memset(&m, 0, sizeof m);
    m.iVersion = 2;                        // shared memory, which WAL needs; no memory-mapped pages
    m.xClose = [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); };
    m.xRead = [](sqlite3_file* f, void* data, int size, sqlite3_int64 offset) {
      return real(f)->pMethods->xRead(real(f), data, size, offset);
    };
    m.xWrite = write;
    m.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
      note(f, Operation::kTruncate, size, "", 0);
      return real(f)->pMethods->xTruncate(real(f), size);
    };
    m.xSync = sync;
    m.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
      return real(f)->pMethods->xFileSize(real(f), size);
    };
    m.xLock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xLock(real(f), lock); };
    m.xUnlock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xUnlock(real(f), lock); };
    m.xCheckReservedLock = [](sqlite3_file* f, int* out) {
      return real(f)->pMethods->xCheckReservedLock(real(f), out);
    };
    m.xFileControl = [](sqlite3_file* f, int op, void* arg) {
      return real(f)->pMethods->xFileControl(real(f), op, arg);
    };
    m.xSectorSize = [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); };
    m.xDeviceCharacteristics = [](sqlite3_file* f) {
      return real(f)->pMethods->xDeviceCharacteristics(real(f));
    };
    m.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
      return real(f)->pMethods->xShmMap(real(f), page, size, extend, out);
    };
    m.xShmLock = [](sqlite3_file* f, int offset, int n, int flags) {
      return real(f)->pMethods->xShmLock(real(f), offset, n, flags);
    };
    m.xShmBarrier = [](sqlite3_file* f) { real(f)->pMethods->xShmBarrier(real(f)); };
    m.xShmUnmap = [](sqlite3_file* f, int del) {
      return real(f)->pMethods->xShmUnmap(real(f), del);
    };
    return m;
  }

  inline static FaultyVfs* current = nullptr;
  sqlite3_vfs* system_ = nullptr;
  sqlite3_vfs vfs_;
  std::atomic<Fault> fault_ = Fault::kNone;                  // a writer's thread asks meanwhile
  std::atomic<int> countdown_ = 0;
  std::atomic<bool> failed_ = false;
  bool recording_ = false;
  std::vector<Operation> operations_;
};

}  // namespace lw
