#!/usr/bin/env bash
# Copyright The Annex Authors.
# SPDX-License-Identifier: Apache-2.0

# Regenerates everything that is generated: the zz_generated.* and generated.* files under apis/ and test/integration/gatedfields/, all of
# generated/, and the OpenAPI definitions of test/integration/gatedfields/.
#
#   hack/generate.sh            writes to this tree
#   hack/generate.sh --verify   writes nothing; prints what differs, and fails if anything does
#
# ANNEX_ROOT names another tree to work on. What is generated for which package is told by the +k8s: and +genclient
# markers there; there is no list of groups. The work is done in a temporary copy, so a failure leaves the tree as it
# was, and only files whose content changes are touched.

set -o errexit -o nounset -o pipefail
export LC_ALL=C GOFLAGS="${GOFLAGS:-} -trimpath" GOWORK=off

module=github.com/kube-annex/annex
root=$(cd "${ANNEX_ROOT:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd -P)

# The trees of API packages: ours, and one that stands for a third party's, which has OpenAPI definitions of its own and no clients.
roots=(apis test/integration/gatedfields)
# The k8s.io/api groups that the control plane serves; it needs OpenAPI definitions, which no library ships.
native_groups=(
	admissionregistration/v1 authentication/v1 authorization/v1 certificates/v1 coordination/v1 core/v1 events/v1
	flowcontrol/v1 rbac/v1 storagemigration/v1
)
# What every API type refers to.
meta_packages=(
	k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime
	k8s.io/apimachinery/pkg/util/intstr k8s.io/apimachinery/pkg/version
)

verify=false
case "${1:-}" in
"") ;;
--verify) verify=true ;;
*)
	echo "usage: $0 [--verify]" >&2
	exit 2
	;;
esac

if ! command -v protoc >/dev/null; then
	echo "protoc is missing; run make protoc, or install it (on Debian and Ubuntu the package is protobuf-compiler)" >&2
	exit 1
fi

# go-to-protobuf wants an output directory that is laid out by import path, so the copy lies in one.
tmp=$(mktemp -d)
trap 'wait && rm -rf "$tmp"' EXIT
copy=$tmp/src/$module
mkdir -p "$tmp/bin"
cp_tree() {
	mkdir -p "$(dirname "$copy/$1")"
	cp -R "$root/$1" "$copy/$1"
}
cp_tree go.mod
cp_tree go.sum
for tree in "${roots[@]}" hack/boilerplate.go.txt hack/models-schema cmd/gatedfield-gen server/featuregating/gates; do
	cp_tree "$tree"
done

# generated_files prints all generated files of a tree, relative to it.
generated_files() {
	(
		cd "$1"
		find "${roots[@]}" -name testdata -prune -o -type f \( -name 'zz_generated.*.go' -o -name 'generated.proto' -o -name 'generated.*pb.go' \) -print
		[[ ! -d generated ]] || find generated -type f
	) | sort
}

# marked prints the import path of every package below the given trees, or all, that carries a marker.
marked() {
	local marker=$1
	shift
	[[ $# -gt 0 ]] || set -- "${roots[@]}"
	grep -rlE --include='*.go' --exclude='zz_generated.*' --exclude-dir=testdata "^// \+$marker" "$@" |
		xargs -r -n1 dirname | sort -u | sed "s|^|$module/|"
}

# step runs a generator quietly: what it says is shown only when it fails.
step() {
	local out
	if ! out=$(go tool "$@" 2>&1); then
		printf '%s failed:\n%s\n' "$1" "$out" >&2
		return 1
	fi
}

cd "$copy"
generated_files . | xargs -r rm -f
header=(--go-header-file "$copy/hack/boilerplate.go.txt")
mapfile -t served < <(marked 'k8s:openapi-gen=true')
mapfile -t own < <(marked 'k8s:openapi-gen=true' apis)
mapfile -t others < <(marked 'k8s:openapi-gen=true' test/integration/gatedfields)
mapfile -t clients < <(marked 'genclient')

readonly_packages=()
while read -r package; do
	readonly_packages+=(--readonly-pkg "$package")
done < <(printf '%s\n' "${meta_packages[@]}" "${native_groups[@]/#/k8s.io/api/}")

# Nothing reads the native definitions here, and they read nothing of ours: they are made beside the rest.
step openapi-gen "${header[@]}" "${readonly_packages[@]}" \
	--output-dir generated/openapi/native --output-pkg "$module/generated/openapi/native" \
	--output-file zz_generated.openapi.go --report-filename /dev/null \
	"${meta_packages[@]}" "${native_groups[@]/#/k8s.io/api/}" &
native=$!

# in_packages runs a generator for the packages that carry its marker, if any.
in_packages() {
	local marker=$1 generator=$2 file=$3
	local packages
	mapfile -t packages < <(marked "$marker")
	[[ ${#packages[@]} -eq 0 ]] || step "$generator" "${header[@]}" --output-file "$file" "${packages[@]}"
}

# There is no declarative validation: validation-gen v0.37.1 emits calls to functions that meta/v1 does not have for every
# type with ObjectMeta, and its messages do not say what to do.
in_packages 'k8s:deepcopy-gen=package' deepcopy-gen zz_generated.deepcopy.go
in_packages 'k8s:defaulter-gen=' defaulter-gen zz_generated.defaults.go
in_packages 'k8s:conversion-gen=' conversion-gen zz_generated.conversion.go
in_packages 'k8s:register-gen=' register-gen zz_generated.register.go
# register-gen calls the names that everything else uses deprecated, in favour of names that nothing else uses.
find "${roots[@]}" -name zz_generated.register.go -print0 | xargs -0r perl -0pi -e 's{(^//\n)?^\s*// Deprecated: .*\n}{}mg'

# Imports of .proto files are found by import path too: link the modules that they come from.
protos=$tmp/protos
for dependency in k8s.io/apimachinery k8s.io/api github.com/gogo/protobuf; do
	mkdir -p "$(dirname "$protos/$dependency")"
	ln -s "$(go list -m -f '{{.Dir}}' "$dependency")" "$protos/$dependency"
done
ln -s "$(go tool -n protoc-gen-gogo)" "$(go tool -n goimports)" "$tmp/bin/"
mapfile -t packages < <(marked 'k8s:protobuf-gen=package')
PATH="$tmp/bin:$PATH" step go-to-protobuf "${header[@]}" \
	--output-dir "$tmp/src" --proto-import "$protos" --proto-import "$protos/github.com/gogo/protobuf/protobuf" \
	--apimachinery-packages "$(printf -- '-%s\n' k8s.io/api/core/v1 k8s.io/apimachinery/pkg/runtime/schema "${meta_packages[@]}" |
		grep -v /version | paste -sd,)" \
	--packages "$(IFS=, && echo "${packages[*]}")"

# openapi writes the definitions of some packages, and names into the packages.
openapi() {
	local output=$1
	shift
	step openapi-gen "${header[@]}" "${readonly_packages[@]}" \
		--output-dir "$output" --output-pkg "$module/$output" \
		--output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go \
		--report-filename /dev/null "${meta_packages[@]}" "$@"
}
openapi test/integration/gatedfields/openapi "${others[@]}" &
theirs=$!
openapi generated/openapi "${own[@]}"

# Packages whose gates are not ours name them in doc.go.
step gatedfield-gen "${header[@]}" --gates-package "$module/server/featuregating/gates" "${served[@]}"

go run ./hack/models-schema >"$tmp/schema.json"
step applyconfiguration-gen "${header[@]}" \
	--output-dir generated/applyconfiguration --output-pkg "$module/generated/applyconfiguration" \
	--openapi-schema "$tmp/schema.json" "${clients[@]}"

inputs=()
for package in "${clients[@]}"; do
	inputs+=(--input "${package#"$module/apis/"}")
done
step client-gen "${header[@]}" --prefers-protobuf \
	--output-dir generated/clientset --output-pkg "$module/generated/clientset" --clientset-name versioned \
	--apply-configuration-package "$module/generated/applyconfiguration" --input-base "$module/apis" "${inputs[@]}"
step lister-gen "${header[@]}" \
	--output-dir generated/listers --output-pkg "$module/generated/listers" "${clients[@]}"
step informer-gen "${header[@]}" \
	--output-dir generated/informers --output-pkg "$module/generated/informers" \
	--versioned-clientset-package "$module/generated/clientset/versioned" \
	--listers-package "$module/generated/listers" "${clients[@]}"
wait "$native"
wait "$theirs"

# Bring the result home.
same=true
while read -r file; do
	if [[ -f $copy/$file && -f $root/$file ]] && cmp -s "$copy/$file" "$root/$file"; then
		continue
	fi
	same=false
	if $verify; then
		echo "differs: $file" >&2
		diff -uN --label "$file (in the tree)" --label "$file (generated)" "$root/$file" "$copy/$file" | head -40 || true
	elif [[ -f $copy/$file ]]; then
		mkdir -p "$(dirname "$root/$file")"
		cp "$copy/$file" "$root/$file"
	else
		rm "$root/$file"
	fi
done < <({
	generated_files "$copy"
	generated_files "$root"
} | sort -u)
if $verify && ! $same; then
	echo "generated files are out of date; run: make generate" >&2
	exit 1
fi
