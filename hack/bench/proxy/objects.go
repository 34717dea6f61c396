package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/uuid"
)

const (
	namespace = "default"
	nodeName  = "bench"
)

func offset(base string, n int) netip.Addr {
	b := netip.MustParseAddr(base).As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(b[:])+uint32(n))))
}

// vip is the address of Service i; the first ones are left to the API server.
func vip(i int) netip.Addr { return offset("10.96.4.0", i) }

// pod is endpoint j of Service i where each has n.
func pod(i, j, n int) netip.Addr { return offset("10.128.0.1", i*n+j) }

// spare is an address that no endpoint has at first.
func spare(i int) netip.Addr { return offset("10.192.0.1", i) }

func serviceName(i int) string { return fmt.Sprintf("svc-%05d", i) }

func service(i int) *corev1.Service {
	policy, single := corev1.ServiceInternalTrafficPolicyCluster, corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: objectMeta(serviceName(i)),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: vip(i).String(), ClusterIPs: []string{vip(i).String()},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &single, InternalTrafficPolicy: &policy,
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports:           []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: vipPort, TargetPort: intstr.FromInt32(podPort)}},
		},
	}
}

// address is the allocation of the address of Service i.
func address(i int) *networkingv1.IPAddress {
	a := &networkingv1.IPAddress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddress"},
		ObjectMeta: objectMeta(vip(i).String()),
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: namespace, Name: serviceName(i),
		}},
	}
	a.Namespace = ""
	a.Labels = map[string]string{
		networkingv1.LabelIPAddressFamily: "IPv4", networkingv1.LabelManagedBy: "ipallocator.k8s.io",
	}
	return a
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uuid.NewUUID()), CreationTimestamp: metav1.Now()}
}

func slice(i int, addrs []netip.Addr) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  objectMeta(serviceName(i) + "-1"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(podPort))}},
	}
	es.Labels = map[string]string{discoveryv1.LabelServiceName: serviceName(i)}
	for _, a := range addrs {
		es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{a.String()}, NodeName: new("other"),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "pod-" + a.String(), UID: types.UID(uuid.NewUUID())},
		})
	}
	return es
}

func firstPods(i, n int) []netip.Addr {
	out := make([]netip.Addr, n)
	for j := range out {
		out[j] = pod(i, j, n)
	}
	return out
}

func node() *corev1.Node {
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: types.UID(uuid.NewUUID()), CreationTimestamp: metav1.Now()},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddr}}},
	}
}

// store writes objects into etcd as the API server would, many at once: to create
// them one by one would take longer than all measurements.
type store struct {
	url     string
	encoder *protobuf.Serializer
	ops     []any
}

// batch is how many operations etcd takes in one transaction.
const batch = 128

func newStore(url string) *store {
	s := runtime.NewScheme()
	return &store{url: url, encoder: protobuf.NewSerializer(s, s)}
}

func (s *store) put(ctx context.Context, key string, o runtime.Object) error {
	var b bytes.Buffer
	if err := s.encoder.Encode(o, &b); err != nil {
		return err
	}
	s.ops = append(s.ops, map[string]any{"requestPut": map[string]string{
		"key": base64.StdEncoding.EncodeToString([]byte(key)), "value": base64.StdEncoding.EncodeToString(b.Bytes()),
	}})
	if len(s.ops) < batch {
		return nil
	}
	return s.flush(ctx)
}

func (s *store) flush(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"success": s.ops})
	if err != nil {
		return err
	}
	s.ops = nil
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s: %s", resp.Status, text)
	}
	return nil
}

func (s *store) fill(ctx context.Context, z size) error {
	if err := s.put(ctx, "/registry/minions/"+nodeName, node()); err != nil {
		return err
	}
	for i := range z.services {
		if err := s.put(ctx, "/registry/services/specs/"+namespace+"/"+serviceName(i), service(i)); err != nil {
			return err
		}
		// The API server would allocate what is not, one by one, before it is ready.
		ip := address(i)
		if err := s.put(ctx, "/registry/ipaddresses/"+ip.Name, ip); err != nil {
			return err
		}
		es := slice(i, firstPods(i, z.endpoints))
		if err := s.put(ctx, "/registry/endpointslices/"+namespace+"/"+es.Name, es); err != nil {
			return err
		}
	}
	return s.flush(ctx)
}
