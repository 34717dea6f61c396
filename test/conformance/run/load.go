package run

import (
	"context"
	"fmt"
	"os"
	"time"
)

// loadPeriod is how often the load is looked at. The kernel averages it over a minute.
const loadPeriod = 15 * time.Second

// watchLoad looks at the machine's load until the function that it returns is called,
// which returns the mean. Zero where the kernel tells of no load.
func watchLoad(ctx context.Context) (mean func() float64) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan float64, 1)
	go func() {
		var sum float64
		samples := 0
		tick := time.NewTicker(loadPeriod)
		defer tick.Stop()
		for {
			if load, ok := loadAverage(); ok {
				sum += load
				samples++
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				result <- sum / float64(max(1, samples))
				return
			}
		}
	}()
	return func() float64 {
		cancel()
		return <-result
	}
}

// loadAverage is the kernel's average of the last minute; see proc_loadavg(5).
func loadAverage() (load float64, ok bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	_, err = fmt.Sscan(string(data), &load)
	return load, err == nil
}
