package lease_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

func Example() {
	server := httptest.NewServer(leasetest.New()) // an API server
	defer server.Close()

	link := lease.NewLink(lease.LinkConfig{})
	client := leasetest.Client{Base: server.URL, HTTP: &http.Client{
		Transport: link.Wrap(&http.Transport{DialContext: link.DialContext}),
	}}
	ctx, stop := context.WithCancel(context.Background())
	keeper, err := lease.New(client.Leases(lease.DefaultNamespace), lease.Config{
		Name: "node-a",
		Link: link,
		Hooks: lease.Hooks{
			Renewed: func(r lease.Renewal) {
				fmt.Println("renewed, attempts:", r.Attempts)
				stop()
			},
			Failed: func(f lease.Failure) { fmt.Println(f.Err) },
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("stopped:", keeper.Run(ctx))
	link.Drop()
	// Output:
	// renewed, attempts: 1
	// stopped: <nil>
}
