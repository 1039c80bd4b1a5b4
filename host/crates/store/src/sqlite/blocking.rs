//! Work that blocks on the disk.

use toolyard_task::StoreError;

pub(super) async fn blocking<T: Send + 'static>(
    operation: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(operation).await;
    done.map_err(|error| StoreError::Unavailable(error.into()))?
}
