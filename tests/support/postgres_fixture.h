// A private PostgreSQL cluster for a test program: made in a temporary directory when first asked
// for, reachable through a Unix socket there only, stopped and deleted when the program ends,
// whichever way. It runs as an unprivileged user when we are root, because it refuses root.
#pragma once

#include <grp.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/base/check.h"

namespace lw {

class PostgresCluster {
 public:
  // nullptr, after saying so, where PostgreSQL is not installed.
  static PostgresCluster* get() {
    static PostgresCluster cluster;
    if (cluster.server_ <= 0) std::printf("[SKIP] no initdb: PostgreSQL is not installed\n");
    return cluster.server_ <= 0 ? nullptr : &cluster;
  }

  // The URL of a new, empty schema of its own, without tables.
  std::string fresh() {
    static std::atomic<int> count = 0;
    const std::string schema = absl::StrCat("t", ++count);
    run(absl::StrCat("CREATE SCHEMA ", schema));
    return absl::StrCat(url(), "&options=-csearch_path%3D", schema);
  }

  std::string url() const {
    return absl::StrCat("postgresql:///postgres?host=", directory_, "&user=postgres");
  }

  // Runs SQL behind the store's back; the first column of the first row.
  std::string run(const std::string& sql) { return run(url(), sql); }
  static std::string run(const std::string& url, const std::string& sql) {
    PGconn* connection = PQconnectdb(url.c_str());
    PGresult* result = PQexec(connection, sql.c_str());
    const ExecStatusType kind = PQresultStatus(result);
    if (kind != PGRES_COMMAND_OK && kind != PGRES_TUPLES_OK) {
      std::printf("%s: %s\n", sql.c_str(), PQerrorMessage(connection));
      CHECK(false);
    }
    const std::string value = PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    PQclear(result);
    PQfinish(connection);
    return value;
  }

  // Ends every session but the caller's, as when the server restarts.
  void end_sessions() {
    run("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> "
        "pg_backend_pid() AND backend_type = 'client backend'");
  }

 private:
  PostgresCluster() {
    const std::string programs = find_programs();
    if (programs.empty()) return;
    // A socket's path has room for 107 bytes.
    std::string name =
        access("/dev/shm", W_OK) == 0 ? "/dev/shm/lw_pg_XXXXXX" : "/tmp/lw_pg_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    directory_ = name;
    if (geteuid() == 0) {
      const passwd* user = getpwnam("postgres");
      if (user == nullptr) user = getpwnam("nobody");
      CHECK(user != nullptr);
      uid_ = user->pw_uid;
      gid_ = user->pw_gid;
      CHECK(chown(directory_.c_str(), uid_, gid_) == 0);
    }
    const std::string data = directory_ + "/data";
    const pid_t maker = start({programs + "/initdb", "-D", data, "-A", "trust", "-U", "postgres",
                               "--no-sync", "-E", "UTF8", "--locale=C"});
    int status = 0;
    CHECK(waitpid(maker, &status, 0) == maker && status == 0);
    maker_ = getpid();
    server_ = start({programs + "/postgres", "-D", data, "-k", directory_, "-c",
                     "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=60", "-c",
                     "shared_buffers=16MB", "-c", "dynamic_shared_memory_type=mmap"});
    for (int i = 0; i < 3000 && PQping(url().c_str()) != PQPING_OK; ++i) usleep(10'000);
    CHECK(PQping(url().c_str()) == PQPING_OK);
  }

  ~PostgresCluster() {
    if (server_ <= 0 || getpid() != maker_) return;
    kill(server_, SIGINT);                 // without waiting for sessions
    int status = 0;
    waitpid(server_, &status, 0);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  static std::string find_programs() {
    std::vector<std::string> folders;
    if (FILE* pipe = popen("pg_config --bindir 2>/dev/null", "r"); pipe != nullptr) {
      char line[500] = "";
      if (fgets(line, sizeof line, pipe) != nullptr) folders.emplace_back(line);
      pclose(pipe);
    }
    folders.emplace_back("/usr/lib/postgresql/15/bin");
    for (std::string& folder : folders) {
      while (!folder.empty() && folder.back() == '\n') folder.pop_back();
      if (access((folder + "/initdb").c_str(), X_OK) == 0) return folder;
    }
    return "";
  }

  // A program as the unprivileged user; it ends when we do, even when we are killed.
  pid_t start(const std::vector<std::string>& words) {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0) return pid;
    if (uid_ != 0 && (setgroups(0, nullptr) != 0 || setgid(gid_) != 0 || setuid(uid_) != 0)) {
      _exit(126);
    }
    prctl(PR_SET_PDEATHSIG, SIGINT);
    if (getppid() != parent || chdir(directory_.c_str()) != 0) _exit(126);
    const std::string log = directory_ + "/log";
    if (freopen(log.c_str(), "a", stdout) == nullptr || dup2(1, 2) < 0) _exit(126);
    execv(arguments[0], arguments.data());
    _exit(127);
  }

  std::string directory_;
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  pid_t maker_ = 0, server_ = 0;
};

// An empty database of PostgreSQL, or the test is skipped.
class PostgresTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cluster_ == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    url_ = cluster_->fresh();
  }
  PostgresCluster* cluster_ = PostgresCluster::get();
  std::string url_;
};

}  // namespace lw
