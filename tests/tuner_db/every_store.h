// Tests that every kind of Store passes: those of memory, SQLite and PostgreSQL.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/postgres_fixture.h"
#include "tests/support/store_fixture.h"

namespace lw {

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Store>(const std::string& file)> make;
};

inline const Kind kKinds[] = {
    {"memory", [](const std::string&) { return make_memory_store(); }},
    {"sqlite", [](const std::string& file) { return *open_sqlite_store(file); }},
    {"postgres", [](const std::string&) -> std::unique_ptr<Store> {
       PostgresCluster* cluster = PostgresCluster::get();
       return cluster == nullptr ? nullptr : *open_store(cluster->fresh());
     }},
};

class StoreTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (store_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
  }
  Scratch scratch_;
  std::unique_ptr<Store> store_ = GetParam().make(scratch_.file);
};
inline std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param.name;
}

}  // namespace lw
