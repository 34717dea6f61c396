package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
)

// events writes Events about the node and its Services, as far as there is an API
// server. Those that come faster than they can be written are dropped: they are a
// courtesy. A nil *events drops all.
type events struct {
	client   rest.Interface
	nodeName string
	log      *slog.Logger
	queue    chan *eventsv1.Event
	// number makes names unique.
	mu     sync.Mutex
	number int
}

const (
	maxEvents    = 100
	eventTimeout = 10 * time.Second
	controller   = "kube-proxy"
)

func newEvents(client *rest.Config, nodeName string, log *slog.Logger) (*events, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(eventsv1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, eventsv1.SchemeGroupVersion)
	client = rest.CopyConfig(client)
	client.GroupVersion, client.APIPath = &eventsv1.SchemeGroupVersion, "/apis"
	client.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client.ContentType, client.AcceptContentTypes = runtime.ContentTypeJSON, ""
	c, err := rest.RESTClientFor(client)
	if err != nil {
		return nil, fmt.Errorf("make a client for events: %w", err)
	}
	return &events{client: c, nodeName: nodeName, log: log, queue: make(chan *eventsv1.Event, maxEvents)}, nil
}

// onNode queues an Event about the node, of the proxy's start. Its UID is the name, as kube-proxy has it:
// kubectl describe looks for both.
func (e *events) onNode(typ, reason, note string) {
	if e == nil {
		return
	}
	e.add(corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: e.nodeName, UID: types.UID(e.nodeName)}, metav1.NamespaceDefault,
		eventsv1.Event{Type: typ, Reason: reason, Action: "StartKubeProxy", Note: note})
}

// onService queues a warning about a Service.
func (e *events) onService(namespace, name, reason, action, note string) {
	if e == nil {
		return
	}
	e.add(corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: namespace, Name: name}, namespace,
		eventsv1.Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Note: note})
}

func (e *events) add(about corev1.ObjectReference, namespace string, event eventsv1.Event) {
	now := metav1.NowMicro()
	e.mu.Lock()
	e.number++
	event.Name = fmt.Sprintf("%s.%x.%d", about.Name, now.UnixNano(), e.number)
	e.mu.Unlock()
	event.Namespace, event.Regarding, event.EventTime = namespace, about, now
	event.ReportingController, event.ReportingInstance = controller, controller+"-"+e.nodeName
	select {
	case e.queue <- &event:
	default:
	}
}

// Run writes Events until ctx ends, and then returns nil.
func (e *events) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-e.queue:
			e.write(ctx, event)
		}
	}
}

func (e *events) write(ctx context.Context, event *eventsv1.Event) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	err := e.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
	if err != nil && ctx.Err() == nil {
		e.log.Warn("cannot write an event", "reason", event.Reason, "about", event.Regarding.Name, "err", err)
	}
}
