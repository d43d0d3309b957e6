/* Loaded before the module of the Python package bochscpu: gives it the names that C libraries before glibc 2.38 lack,
 * and lets BOCHS_MODEL choose the processor that it is (the package knows one only): the mangled name of one of the
 * functions by which Bochs makes its models. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return strtoull(text, end, base); }

int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list list;
  va_start(list, format);
  const int found = vsscanf(text, format, list);
  va_end(list);
  return found;
}

/* The model that the package asks for. */
void* _Z23create_corei3_cnl_cpuidP8BX_CPU_C(void* cpu) {
  void* module = dlopen(getenv("BOCHS_MODULE"), RTLD_LAZY | RTLD_NOLOAD);
  void* (*create)(void*) = NULL;
  if (module != NULL) *(void**)&create = dlsym(module, getenv("BOCHS_MODEL"));
  if (create != NULL) return create(cpu);
  fprintf(stderr, "no processor model %s\n", getenv("BOCHS_MODEL"));
  exit(1);
}
