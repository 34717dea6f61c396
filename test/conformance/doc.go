// Package conformance decides what runs of Kubernetes' end-to-end suites mean: which
// specs belong to a named set, what a report says, how it compares with the stock
// binaries, whether anything was lost that has passed before. It is plain data and
// functions; package run, beside it, starts the cluster and the suite.
//
//	specs, err := conformance.ParseList(out)                  // what the suite offers
//	want := set.Select(specs)                                 // what the set asks for
//	results, err := conformance.ParseReport(file)             // what came out
//	verdict := conformance.Judge(want, results, demand)       // what it means
//
// Two kinds of file are under version control in this folder. results/ holds the results
// of whole runs, first of all those of upstream's binaries, the yardstick: a table beside
// them needs no second run. ratchet/ names the specs that pass with ours: a run that
// loses one fails, as does one that loses what upstream always passes, and only "make
// ratchet" adds to it. A spec that the host cannot pass is listed in [Skips] with its
// reason, and results of upstream's on a host like it must show that.
//
// The package is for this repository and not API.
package conformance
