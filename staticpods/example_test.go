package staticpods_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodekit-go/nodekit/staticpods"
)

// A directory with a good manifest and one with a slip gives one pod, and a status
// for each file.
func ExampleSource_Run() {
	dir, err := os.MkdirTemp("", "manifests")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	write := func(name, image string) {
		text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers:\n  - name: app\n    " + image + "\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	write("web", "image: registry.example/web:1")
	write("job", "imag: registry.example/job:1")

	source, err := staticpods.Dir(dir, staticpods.Config{NodeName: "node-a"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	err = source.Run(ctx, func(set staticpods.Set) {
		for _, pod := range set.Pods {
			fmt.Println("run", pod.Namespace+"/"+pod.Name)
		}
		stop()
	})
	fmt.Println("stopped:", err)
	for _, s := range source.Statuses() {
		fmt.Println(filepath.Base(s.Path), s.State)
		for _, p := range s.Problems {
			fmt.Println(" ", p)
		}
	}
	// Output:
	// run default/web-node-a
	// stopped: <nil>
	// job.yaml invalid
	//   line 6: spec.containers[0].image: required
	//   line 7: spec.containers[0].imag: unknown field; did you mean "image"?
	// web.yaml ok
}

// A URL that answers with a list gives all its pods.
func ExampleRemote_Run() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"apiVersion": "v1", "kind": "PodList", "items": [
			{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "registry.example/web:1"}]}},
			{"metadata": {"name": "job"}, "spec": {"containers": [{"name": "app"}]}}
		]}`)
	}))
	defer server.Close()

	source, err := staticpods.URL(server.URL, staticpods.RemoteConfig{
		Config: staticpods.Config{NodeName: "node-a"},
		Header: http.Header{"X-Key": {"secret"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	err = source.Run(ctx, func(set staticpods.Set) {
		for _, pod := range set.Pods {
			fmt.Println("run", pod.Namespace+"/"+pod.Name)
		}
		stop()
	})
	fmt.Println("stopped:", err)
	for _, s := range source.Statuses() {
		fmt.Printf("%q is %s %v\n", strings.TrimPrefix(s.Path, server.URL), s.State, s.Problems)
	}
	// Output:
	// run default/web-node-a
	// stopped: <nil>
	// "" is ok []
	// "#items[0]" is ok []
	// "#items[1]" is invalid [line 3: spec.containers[0].image: required]
}

// Decode alone turns bytes into a pod, for tools that check manifests.
func ExampleDecode() {
	manifest, err := staticpods.Decode([]byte(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwrk: true
  containers:
  - {name: app, image: registry.example/web:1}
`), "node-a")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(manifest.Pod.Name, manifest.Pod.Spec.RestartPolicy)
	fmt.Println(manifest.Warnings[0])
	// Output:
	// web-node-a Always
	// line 6: spec.hostNetwrk: unknown field; did you mean "hostNetwork"?
}
