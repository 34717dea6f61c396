package shutdown_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
)

func Example() {
	pods := []*corev1.Pod{pod("dns", 2_000_000_000, 5), pod("web", 0, 60)}
	power := shutdown.NewTrigger() // pulled, say, by SIGTERM
	manager, err := shutdown.New(power, shutdown.Config{
		Periods: shutdown.Periods(30*time.Second, 10*time.Second),
		Pods:    func() []*corev1.Pod { return pods },
		Kill: func(_ context.Context, pod *corev1.Pod, grace time.Duration) error {
			fmt.Println("end", pod.Name, "within", grace)
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		power.Pull()
		<-power.Released()
		fmt.Println("the machine may go down")
		stop()
	}()
	fmt.Println("stopped:", manager.Run(ctx))
	// Output:
	// end web within 20s
	// end dns within 5s
	// the machine may go down
	// stopped: <nil>
}

func ExampleMakePlan() {
	pods := []*corev1.Pod{pod("dns", 2_000_000_000, 5), pod("web", 0, 60)}
	fmt.Print(shutdown.MakePlan(pods, shutdown.Periods(30*time.Second, 10*time.Second)))
	// Output:
	// 1. from priority 0, 20s at most
	//    ns/web (priority 0): 20s
	// 2. from priority 2000000000, 10s at most
	//    ns/dns (priority 2000000000): 5s
}
