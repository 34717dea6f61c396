package probes_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/probes"
)

// One attempt, with one call.
func Example() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := probes.HTTP{URL: server.URL + "/healthz"}.Probe(ctx)
	if err != nil {
		fmt.Println("the probe could not be made:", err)
		return
	}
	fmt.Println(res.Outcome, "-", res.Message)
	// Output: failure - HTTP probe failed with statuscode: 404
}

// Probes of a container for as long as it runs. The agent acts on what changes.
func ExampleEngine() {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()

	ready := make(chan probes.Change, 1)
	engine, err := probes.New(probes.Config{Hooks: probes.Hooks{
		Changed: func(c probes.Change) { ready <- c },
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = engine.Run(ctx) })

	err = engine.Add(probes.Container{
		Ref:       probes.Ref{ID: "4fa6", Name: "app", Namespace: "default", Pod: "web"},
		Readiness: &probes.Probe{Prober: probes.HTTP{URL: server.URL}, Schedule: probes.Schedule{Period: time.Second}},
	})
	if err != nil {
		fmt.Println(err)
	}
	c := <-ready
	values, _ := engine.Values(c.Ref.ID)
	fmt.Printf("%s of %s: %s, ready: %t\n", c.Kind, c.Ref.Pod, c.To, values.Ready())

	cancel()
	wg.Wait()
	// Output: Readiness of web: success, ready: true
}

// A prober of one's own, and the thresholds without an Engine.
func ExampleTracker() {
	answers := []probes.Outcome{probes.Success, probes.Failure, probes.Failure, probes.Failure}
	tracker := probes.NewTracker(probes.Readiness, probes.Schedule{FailureThreshold: 2})
	fmt.Println("at first:", tracker.Value())
	for _, a := range answers {
		if tracker.Observe(a) {
			fmt.Println("now:", tracker.Value())
		}
	}
	// Output:
	// at first: failure
	// now: success
	// now: failure
}
