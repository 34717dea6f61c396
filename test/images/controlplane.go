package images

import (
	"archive/tar"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Images of a control plane that runs in pods.
const (
	// EtcdRef is the image of the API server's store, the distribution's.
	EtcdRef = "registry.k8s.io/etcd:nodekit"
	// APIServerRef is the image of the API server.
	APIServerRef = "registry.k8s.io/kube-apiserver:v1.37.2"
)

// ControlPlane returns the path of an archive with the images of a control plane in pods:
// [EtcdRef] and [APIServerRef]. It needs the package etcd-server.
func ControlPlane(ctx context.Context, cfg Config) (string, error) {
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("make the images of the control plane: %w", err)
	}
	return archiveOf(ctx, cfg, controlPlaneSet(etcd))
}

func apiServer() tool { return tool{"kube-apiserver", "k8s.io/kubernetes", "test/tools/kubernetes"} }

// controlPlaneSet is the images of a control plane, with the etcd of the machine.
func controlPlaneSet(etcd string) set {
	return set{
		name: "controlplane",
		images: []image{
			{ref: EtcdRef, layers: []string{"etcd"}, config: config{Entrypoint: []string{"/usr/bin/etcd"}}},
			{ref: APIServerRef, layers: []string{"apiserver"}, config: config{Entrypoint: []string{"/kube-apiserver"}}},
		},
		tools: []tool{apiServer()},
		files: []string{etcd},
		make: func(ctx context.Context, w workshop) (map[string]func(*tar.Writer) error, error) {
			server, err := w.repo.tool(ctx, apiServer().name, apiServer().module)
			if err != nil {
				return nil, err
			}
			libraries, err := librariesOf(ctx, etcd)
			if err != nil {
				return nil, err
			}
			store := []entry{{name: "tmp/", mode: 0o1777}, {name: "usr/bin/etcd", mode: 0o755, path: etcd}}
			for _, path := range libraries {
				store = append(store, entry{name: strings.TrimPrefix(path, "/"), mode: 0o755, path: path})
			}
			return map[string]func(*tar.Writer) error{
				"etcd":      files(store...),
				"apiserver": files(entry{name: "tmp/", mode: 0o1777}, entry{name: "kube-apiserver", mode: 0o755, path: server}),
			}, nil
		},
	}
}

// librariesOf returns the shared libraries of a program, and its loader; none of a static
// one.
func librariesOf(ctx context.Context, program string) ([]string, error) {
	list, err := exec.CommandContext(ctx, "ldd", program).CombinedOutput()
	if err != nil {
		if strings.Contains(string(list), "not a dynamic executable") {
			return nil, nil
		}
		return nil, fmt.Errorf("list the libraries of %s: %w: %s", program, err, list)
	}
	var paths []string
	for field := range strings.FieldsSeq(string(list)) {
		if _, err := os.Stat(field); err == nil && strings.HasPrefix(field, "/") {
			paths = append(paths, field)
		}
	}
	return paths, nil
}
