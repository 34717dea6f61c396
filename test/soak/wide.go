package soak

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// width is more endpoints than any Service of a round has.
const width = maxPods + 4

// widen makes a Service whose endpoints, which nobody asks, become more one by one. A proxy
// may keep rules that depend on the number of endpoints only and serve all Services: after
// this it has all of them, and those that come later are a leak.
func (r *round) widen(ctx context.Context) error {
	const name = "wide"
	service := newService(name, name, corev1.ServiceTypeNodePort)
	service.Spec.Selector = nil
	grow := func(what string, do func(context.Context) error) error {
		before, err := r.meter.rules(ctx)
		if err != nil {
			return err
		}
		if err := ask(ctx, do); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return r.awaitRules(ctx, before)
	}
	err := grow("make Service", func(ctx context.Context) error {
		_, err := r.api.CoreV1().Services(r.namespace).Create(ctx, service, metav1.CreateOptions{})
		return made(err)
	})
	if err != nil {
		return err
	}
	slices, slice := r.api.DiscoveryV1().EndpointSlices(r.namespace), newSlice(name)
	err = ask(ctx, func(ctx context.Context) error {
		_, err := slices.Create(ctx, slice, metav1.CreateOptions{})
		return made(err)
	})
	if err != nil {
		return fmt.Errorf("make EndpointSlice: %w", err)
	}
	address := r.node.PodRange().Addr().As4()
	for n := range width {
		address[3] = byte(254 - n) // At the end of the node's range, where no pod gets to.
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{netip.AddrFrom4(address).String()}})
		err := grow("change EndpointSlice", func(ctx context.Context) error {
			_, err := slices.Update(ctx, slice, metav1.UpdateOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// newSlice is an EndpointSlice without endpoints.
func newSlice(service string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(port)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

// awaitRules waits until kube-proxy has written more than there was.
func (r *round) awaitRules(ctx context.Context, before Counts) error {
	return eventually(ctx, "kube-proxy has written the change", func(ctx context.Context) error {
		now, err := r.meter.rules(ctx)
		if err != nil {
			return err
		}
		if sum(now) <= sum(before) {
			return errors.New("nothing has become more")
		}
		return nil
	})
}

func sum(c Counts) int64 { return c[Chains] + c[Rules] + c[Elements] }
