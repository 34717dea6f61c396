package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificatesv1listers "k8s.io/client-go/listers/certificates/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// bundleTimeout bounds how long a volume waits until the trust bundles of the cluster were
// read: a node may not be permitted to, or the API server may not serve them.
const bundleTimeout = 10 * time.Second

// bundles are the ClusterTrustBundles of the cluster. They are read from the first time on
// that a volume needs one. It is nil without an API server.
type bundles struct {
	informer cache.SharedIndexInformer
	lister   certificatesv1listers.ClusterTrustBundleLister
	changed  func(volume.Object)
	// needed is closed when a volume needs one.
	needed chan struct{}
	need   func()
}

var _ volume.Bundles = (*bundles)(nil)

func newBundles(client kubernetes.Interface, changed func(volume.Object)) *bundles {
	i := informers.NewSharedInformerFactory(client, 0).Certificates().V1().ClusterTrustBundles()
	b := &bundles{informer: i.Informer(), lister: i.Lister(), changed: changed, needed: make(chan struct{})}
	b.need = sync.OnceFunc(func() { close(b.needed) })
	return b
}

// run follows the bundles until ctx ends, once one is needed.
func (b *bundles) run(ctx context.Context) error {
	if b == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-b.needed: // a volume wants one
	}
	_, err := b.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    b.tell,
		UpdateFunc: func(_, object any) { b.tell(object) },
		DeleteFunc: b.tell,
	})
	if err != nil {
		return fmt.Errorf("follow trust bundles: %w", err)
	}
	b.informer.RunWithContext(ctx)
	return nil
}

// tell says which bundle has changed.
func (b *bundles) tell(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if bundle, ok := object.(*certificatesv1.ClusterTrustBundle); ok {
		b.changed(volume.Object{Kind: volume.TrustBundles, Name: bundle.Name})
	}
}

// TrustBundles implements volume.Bundles.
func (b *bundles) TrustBundles(ctx context.Context, source *corev1.ClusterTrustBundleProjection) ([]string, error) {
	b.need()
	ctx, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), b.informer.HasSynced) {
		return nil, fmt.Errorf("the trust bundles of the cluster have not been read: %w", context.Cause(ctx))
	}
	if source.Name != nil {
		bundle, err := b.lister.Get(*source.Name)
		if err != nil {
			return nil, err
		}
		return []string{bundle.Spec.TrustBundle}, nil
	}
	selector := labels.Nothing() // as the API has it for a selector that is not set
	if source.LabelSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(source.LabelSelector); err != nil {
			return nil, fmt.Errorf("select trust bundles: %w", err)
		}
	}
	list, err := b.lister.List(selector)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, bundle := range list {
		if source.SignerName != nil && bundle.Spec.SignerName == *source.SignerName {
			texts = append(texts, bundle.Spec.TrustBundle)
		}
	}
	return texts, nil
}
