package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/pki"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// signingTime limits the time that a server takes to sign.
const signingTime = 30 * time.Second

// byServer creates and approves a CertificateSigningRequest, and returns the certificate that the
// server signs, and the address of the server.
func (u *userAdd) byServer(ctx context.Context, name string, _ time.Time) (_ *pki.Client, server string, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", u.kubeconfig)
	if err == nil {
		err = rest.LoadTLSFiles(config)
	}
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s: %w", u.kubeconfig, err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("kubeconfig %s: %w", u.kubeconfig, err)
	}
	defer client.CloseIdleConnections()
	key, request, err := pki.NewRequest(name, u.groups)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, signingTime)
	defer cancel()
	s := &signingServer{client: client, url: config.Host + "/apis/certificates.k8s.io/v1/certificatesigningrequests"}
	signed, err := s.sign(ctx, request, u.expires)
	if err != nil {
		return nil, "", err
	}
	block, _ := pem.Decode(signed)
	if block == nil {
		return nil, "", errors.New("the server's certificate is not in PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, "", err
	}
	return &pki.Client{Certificate: signed, Key: key, Authority: config.CAData, NotAfter: certificate.NotAfter}, config.Host, nil
}

// signingServer signs approved requests.
type signingServer struct {
	client *http.Client
	url    string // of requests for certificates
}

// sign returns the answer to a request, which is removed then.
func (s *signingServer) sign(ctx context.Context, request []byte, life time.Duration) (_ []byte, err error) {
	csr := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kapok-user-add-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
			ExpirationSeconds: new(int32(min(life/time.Second, math.MaxInt32))),
		},
	}
	if err := s.do(ctx, http.MethodPost, "", csr, csr); err != nil {
		return nil, err
	}
	name := "/" + csr.Name
	defer func() { err = errors.Join(err, s.do(context.WithoutCancel(ctx), http.MethodDelete, name, nil, nil)) }()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KapokUserAdd", Message: "made by kapok user add",
	})
	if err := s.do(ctx, http.MethodPut, name+"/approval", csr, csr); err != nil {
		return nil, err
	}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if len(csr.Status.Certificate) > 0 {
			return csr.Status.Certificate, nil
		}
		for _, c := range csr.Status.Conditions {
			if c.Type == certificatesv1.CertificateFailed || c.Type == certificatesv1.CertificateDenied {
				return nil, fmt.Errorf("the server does not sign the certificate: %s", c.Message)
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("the server did not sign the certificate within %v: is the task signer turned off by --housekeeping?", signingTime)
		}
		if err := s.do(ctx, http.MethodGet, name, nil, csr); err != nil {
			return nil, err
		}
	}
}

// do sends a request, and reads the answer into out, if there is one.
func (s *signingServer) do(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: is the server running?", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, 3<<20))
	if err != nil {
		return err
	}
	if answer.StatusCode > 299 {
		var status metav1.Status
		if json.Unmarshal(data, &status) == nil && status.Message != "" {
			return errors.New(status.Message)
		}
		return fmt.Errorf("the server returned %s", answer.Status)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
