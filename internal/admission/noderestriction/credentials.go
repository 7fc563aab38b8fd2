package noderestriction

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/admission"
	"github.com/kapok-dev/kapok/internal/authz"
	"github.com/kapok-dev/kapok/internal/causes"
	"github.com/kapok-dev/kapok/internal/resource"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	accounts   = schema.GroupResource{Resource: "serviceaccounts"}
	claims     = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes    = schema.GroupResource{Resource: "persistentvolumes"}
	csiDrivers = schema.GroupResource{Group: storagev1.GroupName, Resource: "csidrivers"}
)

// token allows tokens that are bound to a pod of the node.
func (w *write) token() error {
	if !w.is(resource.OperationCreate, "token") {
		return nil
	}
	request, err := admission.Decode[authenticationv1.TokenRequest](w.Object)
	if err != nil {
		return err
	}
	ref := request.Spec.BoundObjectRef
	switch {
	case ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "":
		return errors.New("node requested token not bound to a pod")
	case ref.UID == "":
		return errors.New("node requested token with a pod binding without a uid")
	}
	pod, err := find[corev1.Pod](w, pods, "pod", w.Request.Namespace, ref.Name)
	switch {
	case err != nil:
		return asFailure(err)
	case ref.UID != pod.UID:
		return fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != w.node:
		return errors.New("node requested token bound to a pod scheduled on a different node")
	}
	return w.audience(request.Spec.Audiences, pod)
}

// audience allows the audiences that a pod, or the driver of one of its volumes, needs, and those
// that the node has a permission for.
func (w *write) audience(all []string, pod *corev1.Pod) error {
	audience := ""
	switch len(all) {
	case 0:
	case 1:
		audience = all[0]
	default:
		return errors.New("node may only request 0 or 1 audiences")
	}
	needed, err := w.needsAudience(pod, audience)
	switch {
	case err != nil:
		return fmt.Errorf("error validating audience %q: %w", audience, err)
	case needed:
		return nil
	}
	user := w.Request.User.GetName()
	permitted, err := w.permitted("request-serviceaccounts-token-audience", audience, w.Name)
	switch {
	case err != nil:
		return fmt.Errorf("error authorizing %s to request tokens for audience %q: %w", user, audience, err)
	case !permitted:
		return fmt.Errorf("%s is not authorized to request tokens for audience %q", user, audience)
	}
	return nil
}

// permitted reports whether the node has a verb on a resource that exists only in roles.
func (w *write) permitted(verb, plural, name string) (bool, error) {
	d := w.Request.Definition
	err := w.plugin.Permit(w.ctx, w.Request, &authz.Attributes{
		Verb: verb, ResourceRequest: true, APIGroup: d.Group, APIVersion: w.Request.Version.Name, Resource: plural,
		Namespace: w.Request.Namespace, Name: name,
	})
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

func (w *write) needsAudience(pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil {
			for _, source := range v.Projected.Sources {
				if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == audience {
					return true, nil
				}
			}
		}
		driver, err := w.driverOf(pod, v)
		var has bool
		if err == nil && driver != "" {
			has, err = w.driverNeeds(driver, audience)
		}
		if err != nil {
			errs = append(errs, err)
		}
		if has {
			return true, nil
		}
	}
	return false, causes.Errors(errs)
}

// driverOf returns the CSI driver of a volume of a pod; "" if there is none.
func (w *write) driverOf(pod *corev1.Pod, v *corev1.Volume) (string, error) {
	claim := ""
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		claim = pod.Name + "-" + v.Name
	case v.PersistentVolumeClaim != nil:
		claim = v.PersistentVolumeClaim.ClaimName
	case v.CSI != nil:
		return v.CSI.Driver, nil
	default:
		return migratedInline(&v.VolumeSource), nil
	}
	bound, err := find[corev1.PersistentVolumeClaim](w, claims, "persistentvolumeclaim", pod.Namespace, claim)
	if err != nil {
		return "", err
	}
	volume, err := find[corev1.PersistentVolume](w, volumes, "persistentvolume", "", bound.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	if volume.Spec.CSI != nil {
		return volume.Spec.CSI.Driver, nil
	}
	return migrated(&volume.Spec.PersistentVolumeSource), nil
}

func (w *write) driverNeeds(driver, audience string) (bool, error) {
	d, err := find[storagev1.CSIDriver](w, csiDrivers, "csidriver", "", driver)
	if err != nil {
		return false, err
	}
	for _, request := range d.Spec.TokenRequests {
		if request.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}

// The CSI drivers that replace the volume plugins that Kubernetes had.
const (
	ebs       = "ebs.csi.aws.com"
	azureDisk = "disk.csi.azure.com"
	azureFile = "file.csi.azure.com"
	cinder    = "cinder.csi.openstack.org"
	gcePD     = "pd.csi.storage.gke.io"
	portworx  = "pxd.portworx.com"
	vsphere   = "csi.vsphere.vmware.com"
)

func migratedInline(s *corev1.VolumeSource) string {
	switch {
	case s.AWSElasticBlockStore != nil:
		return ebs
	case s.AzureDisk != nil:
		return azureDisk
	case s.AzureFile != nil:
		return azureFile
	case s.Cinder != nil:
		return cinder
	case s.GCEPersistentDisk != nil:
		return gcePD
	case s.PortworxVolume != nil:
		return portworx
	case s.VsphereVolume != nil:
		return vsphere
	}
	return ""
}

func migrated(s *corev1.PersistentVolumeSource) string {
	switch {
	case s.AWSElasticBlockStore != nil:
		return ebs
	case s.AzureDisk != nil:
		return azureDisk
	case s.AzureFile != nil:
		return azureFile
	case s.Cinder != nil:
		return cinder
	case s.GCEPersistentDisk != nil:
		return gcePD
	case s.PortworxVolume != nil:
		return portworx
	case s.VsphereVolume != nil:
		return vsphere
	}
	return ""
}

// certificate allows requests for certificates of kubelets in the name of the node only.
func (w *write) certificate() error {
	if w.Operation != resource.OperationCreate {
		return nil
	}
	csr, err := admission.Decode[certificatesv1.CertificateSigningRequest](w.Object)
	if err != nil {
		return err
	}
	switch csr.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
	default:
		return nil
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return errors.New("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("unable to parse csr: %w", err)
	}
	if request.Subject.CommonName != "system:node:"+w.node {
		return fmt.Errorf("can only create a node CSR with CN=system:node:%s", w.node)
	}
	return nil
}

// podCertificate allows requests for certificates of pods of the node. Where the request may have
// been right a moment ago, the error is not 403.
func (w *write) podCertificate() error {
	switch {
	case w.Operation != resource.OperationCreate:
		return fmt.Errorf("unexpected operation %v", w.Operation)
	case w.Request.Subresource != "":
		return fmt.Errorf("unexpected subresource %v", w.Request.Subresource)
	}
	request, err := admission.Decode[certificatesv1.PodCertificateRequest](w.Object)
	if err != nil {
		return err
	}
	s := &request.Spec
	if string(s.NodeName) != w.node {
		return fmt.Errorf("PodCertificateRequest.Spec.NodeName=%q, which is not the requesting node %q", s.NodeName, w.node)
	}
	own, err := find[corev1.Node](w, nodes, "node", "", w.node)
	switch {
	case err != nil:
		return retrieving("node", w.node, err)
	case own.UID != s.NodeUID:
		return &failure{fmt.Errorf("PodCertificateRequest for pod %q names node UID %q, inconsistent with the running node (%q)", w.full(s.PodName), s.NodeUID, own.UID)}
	}
	pod, err := find[corev1.Pod](w, pods, "pod", w.Request.Namespace, s.PodName)
	if err != nil {
		return retrieving("pod", w.full(s.PodName), err)
	}
	_, mirrors := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case s.PodUID != pod.UID:
		return &failure{fmt.Errorf("PodCertificateRequest for pod %q contains pod UID (%q) which differs from running pod %q", w.full(s.PodName), s.PodUID, pod.UID)}
	case pod.Spec.NodeName != w.node:
		return fmt.Errorf("pod %q is not running on node %q named in the PodCertificateRequest", w.full(s.PodName), s.NodeName)
	case mirrors:
		return fmt.Errorf("pod %q is a mirror pod", w.full(s.PodName))
	case s.ServiceAccountName != pod.Spec.ServiceAccountName:
		return fmt.Errorf("PodCertificateRequest for pod %q contains serviceAccountName (%q) that differs from running pod (%q)", w.full(s.PodName), s.ServiceAccountName, pod.Spec.ServiceAccountName)
	}
	account, err := find[corev1.ServiceAccount](w, accounts, "serviceaccount", w.Request.Namespace, s.ServiceAccountName)
	switch {
	case err != nil:
		return retrieving("service account", w.full(s.ServiceAccountName), err)
	case s.ServiceAccountUID != account.UID:
		return &failure{fmt.Errorf("PodCertificateRequest for pod %q names service account UID %q, which differs from the running service account (%q)", w.full(s.PodName), s.ServiceAccountUID, account.UID)}
	}
	return w.podSigner(pod, s)
}

// podSigner allows the signers of volumes of a pod, and those that the node has a permission for.
func (w *write) podSigner(pod *corev1.Pod, s *certificatesv1.PodCertificateRequestSpec) error {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Projected == nil {
			continue
		}
		for _, source := range pod.Spec.Volumes[i].Projected.Sources {
			if source.PodCertificate != nil && source.PodCertificate.SignerName == s.SignerName {
				return nil
			}
		}
	}
	permitted, err := w.permitted("request-serviceaccounts-podcertificate-signer", strings.ReplaceAll(s.SignerName, "/", ":"), s.ServiceAccountName)
	switch {
	case err != nil:
		return fmt.Errorf("error authorizing %s to request podcertificaterequests for signer %q: %w", w.Request.User.GetName(), s.SignerName, err)
	case !permitted:
		return fmt.Errorf("pod %q does not mount a podCertificate projected volume for signer %q", w.full(s.PodName), s.SignerName)
	}
	return nil
}

func (w *write) full(name string) string { return w.Request.Namespace + "/" + name }

// retrieving wraps the error of find for an object that a pod certificate request names.
func retrieving(what, name string, err error) error {
	wrapped := fmt.Errorf("while retrieving %s %q named in the PodCertificateRequest: %w", what, name, err)
	if apierrors.IsNotFound(err) {
		return &failure{wrapped}
	}
	return wrapped
}
