package cni_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/cni"
)

// The plugin of this example is a line of shell.
func Example() {
	dir, err := os.MkdirTemp("", "cni-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	confDir, binDir, stateDir := prepare(dir)
	ctx := context.Background()

	network, err := cni.Load(confDir)
	if err != nil {
		fmt.Println(err)
		return
	}
	invoker, err := cni.New(cni.Config{BinDirs: []string{binDir}, StateDir: stateDir})
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := cni.Attachment{
		ContainerID: "4c1e", IfName: "eth0", NetNS: "/run/netns/4c1e",
		Args:         cni.PodArgs("default", "web", "8f3a", "4c1e"),
		Capabilities: cni.Capabilities{PortMappings: []cni.PortMapping{{HostPort: 8080, ContainerPort: 80}}},
	}
	result, err := invoker.Add(ctx, network, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(network, result.Addrs())
	fmt.Println("deleted:", invoker.Del(ctx, network, pod))
	// Output:
	// pods (CNI 1.0.0: stub) [10.88.0.2 fd00:88::2]
	// deleted: <nil>
}

// prepare writes a plugin and a configuration.
func prepare(dir string) (confDir, binDir, stateDir string) {
	const plugin = "#!/bin/sh\ncat >/dev/null\n" +
		`echo '{"cniVersion":"1.0.0","ips":[{"address":"10.88.0.2/16"},{"address":"fd00:88::2/64"}]}'`
	const conf = `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"stub"}]}`
	for name, content := range map[string]string{"stub": plugin, "10-pods.conflist": conf} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			fmt.Println(err)
		}
	}
	return dir, dir, filepath.Join(dir, "state")
}
