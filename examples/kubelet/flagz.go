package main

import (
	"github.com/spf13/pflag"
)

// classified is what a kubelet shows in the place of a secret.
const classified = "CLASSIFIED"

// flagValues are the flags as they were given, for /flagz.
type flagValues map[string]string

// valuesOf returns the values of all flags.
func valuesOf(f *pflag.FlagSet) flagValues {
	values := flagValues{}
	f.VisitAll(func(flag *pflag.Flag) {
		values[flag.Name] = flag.Value.String()
		if flag.Name == "manifest-url-header" && flag.Changed { // headers may be passwords
			values[flag.Name] = classified
		}
	})
	return values
}

// all returns the values.
func (v flagValues) all() map[string]string { return v }
