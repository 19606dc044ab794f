// What libronde_gloo.so exports.
#include "backends/gloo/factory.h"

RONDE_DEFINE_MODULE(ronde::create_gloo_backend)
