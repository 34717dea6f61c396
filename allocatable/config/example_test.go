package config_test

import (
	"fmt"

	"github.com/nodekit-go/nodekit/allocatable/config"
)

// A program names the fields that it acts on, and shows its user the rest.
func ExampleLoad() {
	file := []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
evictionHard:
  memory.available: 100Mi
healtzPort: 10248
`)
	cfg, problems, err := config.Load(file, []string{"staticPodPath", "fileCheckFrequency", "healthzPort"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.StaticPodPath, cfg.FileCheckFrequency.Duration, *cfg.HealthzPort)
	for _, p := range problems {
		fmt.Println(p.Severity, p)
	}
	// Output:
	// /etc/kubernetes/manifests 20s 10248
	// warning line 4: evictionHard: is not honoured: pods are not evicted and images not collected by it
	// error line 6: healtzPort: unknown field; did you mean "healthzPort"?
}
