package main

import (
	"fmt"
	"io"
	"time"
)

// printTable prints what each contender needed, and the ratio of the second to the
// first.
func printTable(w io.Writer, z size, results []result) {
	fmt.Fprintf(w, "\n| %s |", z)
	for _, r := range results {
		fmt.Fprintf(w, " %s |", r.name)
	}
	if len(results) == 2 {
		fmt.Fprintf(w, " ratio |")
	}
	fmt.Fprintf(w, "\n|---|---|")
	for range len(results) - 1 {
		fmt.Fprintf(w, "---|---|")
	}
	fmt.Fprintln(w)
	row := func(name, unit string, value func(result) float64) {
		fmt.Fprintf(w, "| %s |", name)
		for _, r := range results {
			fmt.Fprintf(w, " %.4g %s |", value(r), unit)
		}
		if len(results) == 2 {
			fmt.Fprintf(w, " %.3g |", value(results[1])/value(results[0]))
		}
		fmt.Fprintln(w)
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	row("start until all answer", "s", func(r result) float64 { return r.start.Seconds() })
	row("CPU of the start", "s", func(r result) float64 { return r.startCPU.all().Seconds() })
	row("peak memory", "MiB", func(r result) float64 { return float64(r.peak) / 1024 })
	for _, k := range kinds() {
		row(string(k)+", p50", "ms", func(r result) float64 { return ms(quantile(r.latency[k], 0.5)) })
		row(string(k)+", p99", "ms", func(r result) float64 { return ms(quantile(r.latency[k], 0.99)) })
		row(string(k)+", CPU", "ms", func(r result) float64 { return ms(r.cpu[k].all()) })
		row(string(k)+", CPU of its own", "ms", func(r result) float64 { return ms(r.cpu[k].own) })
		row(string(k)+", CPU of its children", "ms", func(r result) float64 { return ms(r.cpu[k].children) })
	}
	row("connect through the virtual IP, p50", "ms", func(r result) float64 { return ms(quantile(r.viaVIP, 0.5)) })
	row("connect directly, p50", "ms", func(r result) float64 { return ms(quantile(r.direct, 0.5)) })
}
