package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// bootstrapToken is good for nothing but to ask for a certificate.
const bootstrapToken = "abcdef.0123456789abcdef"

// The tests leave goroutines of client-go behind: a manager that is stopped still waits for
// the time of the next renewal.

// api is an API server over TLS that signs every certificate request of those whom it
// knows: by bootstrapToken, or by a certificate that it has signed.
type api struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	ca  *x509.Certificate
	// waiting is told of each request that waits.
	waiting chan struct{}

	mu sync.Mutex // guards the fields below
	// asked are the requests, askers who sent them.
	asked  []*certificatesv1.CertificateSigningRequest
	askers []string
	// signed counts the certificates, and is the serial number of the last one.
	signed int64
}

func newAPI(t *testing.T) *api {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &api{key: key, signed: 100, waiting: make(chan struct{}, 1)}
	if a.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(a.serve))
	a.EnableHTTP2 = true
	a.Config.ErrorLog = log.New(io.Discard, "", 0)
	pool := x509.NewCertPool()
	pool.AddCert(a.ca)
	a.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool}
	a.StartTLS()
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// who says who sent a request, empty: nobody that is known.
func who(r *http.Request) string {
	if len(r.TLS.PeerCertificates) > 0 {
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if r.Header.Get("Authorization") == "Bearer "+bootstrapToken {
		return "bootstrap"
	}
	return ""
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	w.Header().Set("Content-Type", "application/json")
	switch {
	case who(r) == "":
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 401, Reason: metav1.StatusReasonUnauthorized})
	case r.URL.Path == "/who":
		fmt.Fprintf(w, "%s %s", who(r), r.TLS.PeerCertificates[0].SerialNumber)
	case r.URL.Path == "/wait":
		a.waiting <- struct{}{}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.Path == requests && r.Method == http.MethodPost:
		a.sign(w, r)
	case r.URL.Path == requests && r.URL.Query().Get("watch") != "":
		e := json.NewEncoder(w)
		object := a.find(r)
		_ = e.Encode(map[string]any{"type": watch.Added, "object": object})
		end := &certificatesv1.CertificateSigningRequest{TypeMeta: object.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "2", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		_ = e.Encode(map[string]any{"type": watch.Bookmark, "object": end})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.URL.Path == requests:
		_ = json.NewEncoder(w).Encode(&certificatesv1.CertificateSigningRequestList{
			TypeMeta: metav1.TypeMeta{Kind: "CertificateSigningRequestList", APIVersion: "certificates.k8s.io/v1"},
			ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []certificatesv1.CertificateSigningRequest{*a.find(r)},
		})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// find returns the request that a list or a watch is about.
func (a *api) find(r *http.Request) *certificatesv1.CertificateSigningRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	for _, req := range a.asked {
		if req.Name == name {
			return req
		}
	}
	return &certificatesv1.CertificateSigningRequest{}
}

func (a *api) sign(w http.ResponseWriter, r *http.Request) {
	var req certificatesv1.CertificateSigningRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	block, _ := pem.Decode(req.Spec.Request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.signed++
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(a.signed), Subject: csr.Subject, DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.ca, csr.PublicKey, a.key)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.TypeMeta = metav1.TypeMeta{Kind: "CertificateSigningRequest", APIVersion: "certificates.k8s.io/v1"}
	req.Name, req.UID, req.ResourceVersion = fmt.Sprint("csr-", a.signed), types.UID(fmt.Sprint(a.signed)), "1"
	req.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True"}}
	req.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.asked, a.askers = append(a.asked, &req), append(a.askers, who(r))
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(&req)
}

// requests returns what was asked for, and by whom.
func (a *api) requests() ([]*certificatesv1.CertificateSigningRequest, []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked, a.askers
}

// issue makes a client certificate and its key by hand, in PEM.
func (a *api) issue(t *testing.T, name string, from, to time.Duration) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.ca, &private.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

// kubeconfig writes a kubeconfig for the server with an identity.
func (a *api) kubeconfig(t *testing.T, dir, name string, info *clientcmdapi.AuthInfo) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{
		Server: a.URL, TLSServerName: "example.com",
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}),
	}
	c.AuthInfos["u"] = info
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	file := filepath.Join(dir, name)
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}
