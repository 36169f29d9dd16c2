//! gRPC's stubs, from a description in Rust: no protoc needed.

use tonic_prost_build::manual::{Builder, Method, Service};

fn main() {
    let call = Method::builder()
        .name("call")
        .route_name("Call")
        .input_type("crate::Argument")
        .output_type("crate::Nothing")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let null = Service::builder().name("Null").package("bench").method(call).build();
    Builder::new().compile(&[null]);
}
