package node

import (
	"context"
	"errors"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodekit-go/nodekit/podworker/podsource"
)

// services are the Services of the cluster, which pods find by variables. It is nil
// without an API server.
type services struct {
	informer cache.SharedIndexInformer
	lister   corev1listers.ServiceLister
}

func newServices(client kubernetes.Interface, log *slog.Logger) (*services, error) {
	if client == nil {
		return nil, nil
	}
	i := informers.NewSharedInformerFactory(client, 0).Core().V1().Services()
	// That of client-go holds up the informers of the whole process.
	err := i.Informer().SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		log.Debug("services are not read, what is known of them stays; trying again", "err", err)
	})
	return &services{informer: i.Informer(), lister: i.Lister()}, err
}

// run follows the Services until ctx ends.
func (s *services) run(ctx context.Context) error {
	if s != nil {
		s.informer.RunWithContext(ctx)
	}
	return nil
}

// errNoServicesYet is for pods of the API server: that has answered, so that Services
// will be known in a moment.
var errNoServicesYet = errors.New("services have not yet been read at least once, cannot construct envvars")

// list returns all Services.
func (s *services) list(pod *corev1.Pod) ([]*corev1.Service, error) {
	switch {
	case s == nil:
		return nil, nil
	case !s.informer.HasSynced() && !ofManifest(pod):
		return nil, errNoServicesYet
	}
	return s.lister.List(labels.Everything())
}

// ofManifest reports whether a pod is from a manifest, which has to run while the API
// server does not answer.
func ofManifest(pod *corev1.Pod) bool { return podsource.IsStatic(pod) }
