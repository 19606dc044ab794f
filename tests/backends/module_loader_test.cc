#include "backends/module_loader.h"

#include <doctest/doctest.h>

namespace ronde {
namespace {

ModuleSpec spec(const std::string& file) {
  return {.name = "echo", .file = file, .options = {.network_interface = "eth7"}};
}

TEST_CASE("a module in the build's folder is found by its bare name") {
  auto backend = load_module(spec("libtest_module_good.so"));
  REQUIRE_MESSAGE(backend.ok(), backend.status().to_string());
  CHECK((*backend)->name() == "echo");
  CHECK((*backend)->viable(GroupSpec{}).message() == "uses eth7");
}

TEST_CASE("a module of another build is refused, naming both") {
  const auto backend = load_module(spec("libtest_module_other_build.so"));
  CHECK(backend.status().code() == Code::kVersionMismatch);
  CHECK(backend.status().message().find("another compiler") != std::string::npos);
  CHECK(backend.status().message().find(kModuleBuild) != std::string::npos);
}

TEST_CASE("a module that is not there is unavailable, naming the file") {
  const auto backend = load_module(spec("libtest_module_absent.so"));
  CHECK(backend.status().code() == Code::kUnavailable);
  CHECK(backend.status().message().find("libtest_module_absent.so") != std::string::npos);
}

TEST_CASE("the error of a module that cannot be loaded ends with the remedy") {
  ModuleSpec absent = spec("libtest_module_absent.so");
  absent.remedy = "install Echo";
  const std::string said = load_module(absent).status().message();
  CHECK(said.substr(said.rfind(';')) == "; install Echo");
}

TEST_CASE("a library that is no module is refused") {
  CHECK(load_module(spec("libm.so.6")).status().code() == Code::kVersionMismatch);
}

TEST_CASE("the stand-in loads on the first question and keeps its answer") {
  const auto good = make_module_backend(spec("libtest_module_good.so"));
  CHECK(good->name() == "echo");
  CHECK(good->viable(GroupSpec{}).message() == "uses eth7");
  const auto absent = make_module_backend(spec("libtest_module_absent.so"));
  CHECK(absent->viable(GroupSpec{}).code() == Code::kUnavailable);
  CHECK(absent->viable(GroupSpec{}).code() == Code::kUnavailable);
}

}  // namespace
}  // namespace ronde
