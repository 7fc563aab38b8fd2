package cluster

import (
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

func validateAPIService(s, _ *apiregistrationv1.APIService) (all field.ErrorList) {
	spec, at := &s.Spec, field.NewPath("spec")
	if name := spec.Version + "." + spec.Group; s.Name != name {
		all = append(all, field.Invalid(field.NewPath("metadata", "name"), s.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", name)))
	}
	if spec.Group != "" {
		all = append(all, rule.Invalid(at.Child("group"), spec.Group, validation.IsDNS1123Subdomain(spec.Group))...)
	} else if spec.Version != "v1" {
		all = append(all, field.Required(at.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	all = append(all, rule.Invalid(at.Child("version"), spec.Version, validation.IsDNS1035Label(spec.Version))...)
	if n := spec.GroupPriorityMinimum; n <= 0 || n > 20000 {
		all = append(all, field.Invalid(at.Child("groupPriorityMinimum"), n, "must be positive and less than 20000"))
	}
	if n := spec.VersionPriority; n <= 0 || n > 1000 {
		all = append(all, field.Invalid(at.Child("versionPriority"), n, "must be positive and less than 1000"))
	}
	if spec.Service == nil {
		if len(spec.CABundle) > 0 {
			all = append(all, field.Invalid(at.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle"))
		}
		if spec.InsecureSkipTLSVerify {
			all = append(all, field.Invalid(at.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return all
	}
	all = append(all, rule.RequireText(spec.Service.Namespace, at.Child("service", "namespace"))...)
	all = append(all, rule.RequireText(spec.Service.Name, at.Child("service", "name"))...)
	if problems := validation.IsValidPortNum(int(*spec.Service.Port)); len(problems) > 0 {
		all = append(all, field.Invalid(at.Child("service", "port"), *spec.Service.Port, "port is not valid: "+strings.Join(problems, ", ")))
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		all = append(all, field.Invalid(at.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return all
}

func validateAPIServiceStatus(s, _ *apiregistrationv1.APIService) (all field.ErrorList) {
	for i, c := range s.Status.Conditions {
		all = append(all, rule.Supported(field.NewPath("status", "conditions").Index(i).Child("status"), c.Status,
			apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown)...)
	}
	return all
}
