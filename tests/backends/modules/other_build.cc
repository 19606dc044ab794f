// A module that another build of Ronde left behind.
extern "C" __attribute__((visibility("default"))) const char* ronde_module_build();
const char* ronde_module_build() { return "ronde module 0, another compiler"; }
