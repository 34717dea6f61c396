//go:build race

package node

import "runtime"

// oneAtATime keeps the race detector from crashing: in a bubble of testing/synctest two
// threads may use its context for timers at once (https://go.dev/issue/78156). Races are
// found all the same, as they do not depend on what runs at the same moment.
func oneAtATime() { runtime.GOMAXPROCS(1) }
