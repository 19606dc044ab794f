#include "backends/module_loader.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/mutex.h"

namespace ronde {
namespace {

/// Path of the program or library that contains this function; empty where unknown.
std::filesystem::path own_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_path), &info) == 0) return {};
  std::error_code error;
  // A program's own name is its argv[0], which need not be a path.
  const bool is_path = std::string_view(info.dli_fname).find('/') != std::string_view::npos;
  return std::filesystem::canonical(is_path ? info.dli_fname : "/proc/self/exe", error);
}

/// The folders in which the dynamic linker looks for libraries of that program or library, RUNPATH
/// among them. A sanitizer may intercept dlopen(), which then looks in the sanitizer's folders.
std::vector<std::filesystem::path> linker_folders() {
  void* self = dlopen(own_path().c_str(), RTLD_NOLOAD | RTLD_LAZY);
  if (self == nullptr) self = dlopen(nullptr, RTLD_LAZY);  // the program itself
  Dl_serinfo size{};
  if (self == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<std::byte> memory(size.dls_size);
  auto* info = reinterpret_cast<Dl_serinfo*>(memory.data());
  *info = size;
  if (dlinfo(self, RTLD_DI_SERINFO, info) != 0) return {};
  std::vector<std::filesystem::path> folders;
  for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  return folders;
}

std::vector<std::string> places(const std::string& file) {
  if (file.find('/') != std::string::npos) return {file};
  const std::filesystem::path folder = own_path().parent_path();
  std::vector<std::filesystem::path> folders = linker_folders();
  folders.insert(folders.begin(), {folder, folder / "../lib"});
  std::vector<std::string> found;
  for (const std::filesystem::path& each : folders) {
    std::error_code error;
    if (std::filesystem::exists(each / file, error)) found.push_back((each / file).string());
  }
  if (found.empty()) found.push_back(file);  // for the linker's cache, and its message
  return found;
}

Result<void*> open_library(const std::string& file) {
  std::string reasons;
  for (const std::string& place : places(file)) {
    // Never unloaded: the library behind it may keep threads and exit handlers.
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return handle;
    const char* const reason = dlerror();  // NOLINT(concurrency-mt-unsafe): per thread in glibc
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason);
  }
  return Status(Code::kUnavailable, reasons);
}

Result<void*> symbol(void* handle, const char* name) {
  if (void* address = dlsym(handle, name)) return address;
  return Status(Code::kVersionMismatch, fmt::format("it lacks {}", name));
}

/// The module's function of that name.
Result<void*> find_factory(const std::string& file, const char* name) {
  RONDE_ASSIGN_OR_RETURN(void* handle, open_library(file));
  RONDE_ASSIGN_OR_RETURN(void* found, symbol(handle, kModuleBuildSymbol));
  const char* build = reinterpret_cast<ModuleBuildFunction*>(found)();
  if (std::string_view(build) != kModuleBuild) {
    return Status(Code::kVersionMismatch,
                  fmt::format("it is of the build '{}', this is '{}'", build, kModuleBuild));
  }
  return symbol(handle, name);
}

Result<void*> load_factory(const std::string& file, const char* name) {
  auto factory = find_factory(file, name);
  if (factory.ok()) return factory;
  return factory.status().with_context(fmt::format("{} cannot be loaded", file));
}

/// Loads the library that the module is to use. The module then finds it by its soname.
Status load_first(const std::string& library) {
  if (library.empty() || dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return {};
  return {Code::kUnavailable, dlerror()};  // NOLINT(concurrency-mt-unsafe): per thread in glibc
}

class ModuleBackend final : public Backend {
 public:
  ModuleBackend(ModuleSpec spec, void (*choose)(ModuleSpec&))
      : choose_(choose), spec_(std::move(spec)) {}

  std::string_view name() const noexcept override { return spec_.name; }
  DeviceKind memory() const noexcept override { return spec_.memory; }

  Status viable(const GroupSpec& group) override {
    RONDE_ASSIGN_OR_RETURN(Backend * backend, loaded());
    return backend->viable(group);
  }

  Result<std::unique_ptr<Communicator>> open(const GroupSpec& group, Exchange& exchange) override {
    RONDE_ASSIGN_OR_RETURN(Backend * backend, loaded());
    return backend->open(group, exchange);
  }

 private:
  Result<Backend*> loaded() RONDE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (!backend_) {
      if (choose_ != nullptr) choose_(spec_);
      backend_.emplace(load_module(spec_));
    }
    if (!backend_->ok()) return backend_->status();
    return backend_->value().get();
  }

  void (*const choose_)(ModuleSpec&);
  ModuleSpec spec_;  // const but for choose_, under mutex_
  Mutex mutex_;
  std::optional<Result<std::unique_ptr<Backend>>> backend_ RONDE_GUARDED_BY(mutex_);
};

}  // namespace

std::string module_folder() { return own_path().parent_path().string(); }

Result<std::unique_ptr<Backend>> load_module(const ModuleSpec& spec) {
  RONDE_RETURN_IF_ERROR(load_first(spec.library));
  Result<void*> loaded = load_factory(spec.file, kModuleCreateSymbol);
  if (loaded.status().code() == Code::kUnavailable && !spec.remedy.empty()) {
    return Status(Code::kUnavailable,
                  fmt::format("{}; {}", loaded.status().message(), spec.remedy));
  }
  RONDE_ASSIGN_OR_RETURN(void* factory, std::move(loaded));
  return std::unique_ptr<Backend>(reinterpret_cast<ModuleCreateFunction*>(factory)(spec.options));
}

Result<std::shared_ptr<Accelerator>> load_accelerator_module(const std::string& file) {
  RONDE_ASSIGN_OR_RETURN(void* factory, load_factory(file, kAcceleratorCreateSymbol));
  return std::shared_ptr<Accelerator>(reinterpret_cast<AcceleratorCreateFunction*>(factory)());
}

std::unique_ptr<Backend> make_module_backend(ModuleSpec spec, void (*choose)(ModuleSpec&)) {
  return std::make_unique<ModuleBackend>(std::move(spec), choose);
}

}  // namespace ronde
