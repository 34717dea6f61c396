package apiclient_test

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/nodekit-go/nodekit/examples/apiclient"
)

// pods is an API server of pods: each watch begins with the pods of its moment and
// tells no news.
type pods struct {
	mu    sync.Mutex // guards names
	names []string
}

func (p *pods) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names = append(p.names, name)
}

func (p *pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	tell := func(kind watch.EventType, pod *corev1.Pod) {
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.ResourceVersion = "1"
		_ = e.Encode(map[string]any{"type": kind, "object": pod})
	}
	p.mu.Lock()
	for _, name := range p.names {
		tell(watch.Added, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
	}
	p.mu.Unlock()
	tell(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// serve serves pods over TLS and HTTP/2 and returns the configuration that a program
// makes of its kubeconfig file.
func serve(t *testing.T, l net.Listener, p *pods) *rest.Config {
	t.Helper()
	srv := httptest.NewUnstartedServer(p)
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	srv.StartTLS()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{
		Server: srv.URL, TLSServerName: "example.com",
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
	}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
	kubeconfig.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	config, err := apiclient.Config(file, "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// watchPods watches pods as the kubelet does until the test ends, and sends the names of
// those that it sees.
func watchPods(t *testing.T, config *rest.Config) <-chan string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	informer := informers.NewSharedInformerFactory(client, 0).Core().V1().Pods().Informer()
	seen := make(chan string, 10)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { seen <- object.(*corev1.Pod).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { informer.RunWithContext(t.Context()) })
	t.Cleanup(wg.Wait)
	return seen
}

// await waits for the pod of a name and returns how long that took.
func await(t *testing.T, seen <-chan string, name string, patience time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case got := <-seen:
			if got == name {
				return time.Since(start)
			}
		case <-timer.C:
			t.Fatalf("pod %s was not seen in %s", name, patience)
		}
	}
}
