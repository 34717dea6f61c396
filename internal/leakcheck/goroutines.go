package leakcheck

import (
	goruntime "runtime"
	"strings"
)

// standard are functions at whose mention a goroutine is not a leak: it belongs to the
// test framework or to the Go runtime.
func standard() []string {
	return []string{
		"leakcheck.Main(",
		"testing.Main(",
		"testing.tRunner(",
		"testing.runFuzzing(",
		"testing.(*M).startAlarm",
		"os/signal.loop(",
		"os/signal.signal_recv(",
		"runtime.ensureSigM(",
		"runtime/trace.Start",
		"runtime.ReadTrace(",
		"runtime/pprof.profileWriter(",
	}
}

// goroutines returns the stacks of all goroutines that are not standard.
func goroutines() []string {
	buf := make([]byte, 1<<20)
	for {
		n := goruntime.Stack(buf, true)
		if n < len(buf) {
			return leaked(string(buf[:n]))
		}
		buf = make([]byte, 2*len(buf))
	}
}

// leaked picks the stacks that are not standard out of a dump of all.
func leaked(dump string) []string {
	var left []string
	for stack := range strings.SplitSeq(strings.TrimSpace(dump), "\n\n") {
		if !isStandard(stack) {
			left = append(left, stack)
		}
	}
	return left
}

func isStandard(stack string) bool {
	for _, s := range standard() {
		if strings.Contains(stack, s) {
			return true
		}
	}
	return false
}
