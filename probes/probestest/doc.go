// Package probestest has probers and servers that behave as told, for tests of
// what uses package probes.
//
// A Script is a prober, and something to run commands with, that goes through a
// list of steps: succeed, fail, take a while, ignore its deadline, panic. It
// remembers its calls. It keeps time with the standard library only, so that it
// works in a bubble of testing/synctest.
//
//	s := probestest.NewScript(probestest.Fail("starting"), probestest.Succeed())
//	engine.Add(probes.Container{Ref: ref, Readiness: &probes.Probe{Prober: s}})
//
// Replies is an http.Handler, and Raw a TCP server, for the probers that need a
// real connection.
//
// The package is for tests only. It needs no privileges. Its types are safe for
// use by several goroutines.
package probestest
