// Marks what the shared library exports.
#pragma once

#define RONDE_API [[gnu::visibility("default")]]
