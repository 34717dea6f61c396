package stats_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server/stats"
	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// Example tells what a pod uses. A real agent has a cgroupstat.Reader read its groups.
func Example() {
	pods := func() []stats.Pod {
		return []stats.Pod{{UID: "1", Namespace: "default", Name: "web", Group: "/kubepods/pod1"}}
	}
	c, err := stats.New(stats.Config{Node: "node-a", Pods: pods, Groups: exampleGroups{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()

	s := c.CPUAndMemory(ctx) // c.Handler() serves it
	fmt.Println(s.Pods[0].PodRef.Name, *s.Pods[0].Memory.WorkingSetBytes)
	for _, f := range c.Resource(ctx) {
		fmt.Println(f.Kind, f.Name, f.Samples[0].Values, f.Samples[0].Value)
	}

	cancel()
	if err := <-ended; err != nil {
		fmt.Println(err)
	}
	// Output:
	// web 4096
	// counter node_cpu_usage_seconds_total [] 2
	// gauge node_memory_working_set_bytes [] 4096
	// gauge node_swap_usage_bytes [] 0
	// counter pod_cpu_usage_seconds_total [web default] 2
	// gauge pod_memory_working_set_bytes [web default] 4096
	// gauge pod_swap_usage_bytes [web default] 0
	// gauge resource_scrape_error [] 0
}

// exampleGroups are control groups that all use the same.
type exampleGroups struct{}

func (exampleGroups) Usage(string) (cgroupstat.Usage, error) {
	return cgroupstat.Usage{Time: time.Now(), CPU: 2 * time.Second, Memory: cgroupstat.Memory{WorkingSet: 4096}}, nil
}

func (g exampleGroups) Detail(group string) (cgroupstat.Detail, error) {
	u, err := g.Usage(group)
	return cgroupstat.Detail{Usage: u}, err
}

func (exampleGroups) Pressure(string) (cgroupstat.Pressure, error) { return cgroupstat.Pressure{}, nil }

func (exampleGroups) Children(string) ([]string, error) { return nil, nil }

func (exampleGroups) Processes(string) ([]int, error) { return nil, nil }
