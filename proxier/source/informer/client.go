package informer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
)

// clients are those of the three API groups, over one connection.
type clients struct {
	core, discovery, networking rest.Interface
}

// protobuf is the encoding that costs least to decode; JSON is for servers without.
const protobuf = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

func newClients(config *rest.Config) (clients, error) {
	scheme := newScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = codecs.WithoutConversion()
	if config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
	}
	if config.AcceptContentTypes == "" {
		config.AcceptContentTypes = protobuf
	}
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	// To compress a list takes the server longer than to send it. The stream of a first
	// state, which a list stands in for, is not compressed either.
	config.DisableCompression = true
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return clients{}, fmt.Errorf("make a client of %s: %w", config.Host, err)
	}
	var out clients
	for _, c := range []struct {
		group schema.GroupVersion
		path  string
		to    *rest.Interface
	}{
		{corev1.SchemeGroupVersion, "/api", &out.core},
		{discoveryv1.SchemeGroupVersion, "/apis", &out.discovery},
		{networkingv1.SchemeGroupVersion, "/apis", &out.networking},
	} {
		config.GroupVersion, config.APIPath = &c.group, c.path
		client, err := rest.RESTClientForConfigAndClient(config, httpClient)
		if err != nil {
			return clients{}, fmt.Errorf("make a client of %s for %s: %w", config.Host, c.group, err)
		}
		*c.to = client
	}
	return out, nil
}

// newScheme knows the groups that are watched, and no others.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}
