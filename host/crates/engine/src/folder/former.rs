//! Components that left the folder, and on which tasks that resume still run.

use crate::component::compile_turn::CompileTurn;
use crate::error::Refusal;
use crate::folder::{component_loader, plugin};
use crate::run::engine::{Engine, FormerTools, ToolOfPlugin};
use crate::run::loaded::{LoadedComponent, PluginBase};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::runtime::Handle;
use toolyard_task::journal::JournalStore;
use toolyard_task::{Digest, Tool};

/// The most that stay in memory.
const MAX_KEPT: usize = 16;

/// The former components that were used last.
struct FormerComponents {
    store: Arc<dyn JournalStore>,
    /// The one that was used last is at the end.
    kept: Mutex<Vec<Arc<LoadedComponent>>>,
    /// At most one component is loaded at a time.
    loading: tokio::sync::Mutex<()>,
}

impl Engine {
    /// Keeps the components of tasks that resume in this store, so that a task ends on the component on which it
    /// began. To be called before plugins are loaded; without it such a task needs the component in the folder.
    pub fn keep_components(&self, store: Arc<dyn JournalStore>) {
        let former =
            FormerComponents { store, kept: Mutex::default(), loading: tokio::sync::Mutex::default() };
        // A process opens one store.
        drop(self.former.set(Arc::new(former)));
    }
}

impl FormerTools for FormerComponents {
    fn store(&self) -> &Arc<dyn JournalStore> {
        &self.store
    }

    fn tool(
        self: Arc<Self>,
        engine: Arc<Engine>,
        tool: ToolOfPlugin,
    ) -> BoxFuture<'static, Result<Arc<dyn Tool>, String>> {
        Box::pin(async move {
            let ToolOfPlugin { digest, guest_name, file, manifest, grants } = tool;
            if !engine.settings.allows(&digest) {
                return Err("`plugins.require-digest` does not list it".to_owned());
            }
            let component = self.component(&engine, &file, &digest).await?;
            let mut declared = component.declared.iter();
            let declared = declared.find(|declared| declared.description.name == *guest_name).cloned();
            let declared = declared.ok_or("it does not have the tool")?;
            let said = manifest.tools.get(&*guest_name).cloned().unwrap_or_default();
            let base = Arc::new(PluginBase { engine, file, component, manifest, grants });
            let tool = plugin::tool(&base, &declared, &said).map_err(|refusal| refusal.to_string())?;
            Ok(tool as Arc<dyn Tool>)
        })
    }
}

impl FormerComponents {
    /// A component, ready for runs with a journal: from memory, or from the store.
    async fn component(
        &self,
        engine: &Arc<Engine>,
        file: &Arc<str>,
        digest: &Digest,
    ) -> Result<Arc<LoadedComponent>, String> {
        if let Some(kept) = self.find(digest) {
            return Ok(kept);
        }
        let _turn = self.loading.lock().await;
        if let Some(kept) = self.find(digest) {
            return Ok(kept);
        }
        let bytes = self.store.component(digest).await.map_err(|error| error.to_string())?;
        let bytes = bytes.ok_or("the store does not have it")?;
        let (engine, file, digest, runtime) =
            (engine.clone(), file.clone(), digest.clone(), Handle::current());
        let load = move || {
            let mut turn = CompileTurn::alone();
            let loaded =
                component_loader::load(&engine, (&runtime, &mut turn), (&file, &bytes), digest, false)?;
            component_loader::load_journalled(&engine, &mut turn, (&file, &bytes), &loaded)?;
            Ok(Arc::new(loaded))
        };
        let loaded = tokio::task::spawn_blocking(load).await.map_err(|error| error.to_string())?;
        let loaded = loaded.map_err(|refusal: Refusal| refusal.to_string())?;
        let mut kept = self.kept.lock();
        if kept.len() == MAX_KEPT {
            kept.remove(0);
        }
        kept.push(loaded.clone());
        Ok(loaded)
    }

    fn find(&self, digest: &Digest) -> Option<Arc<LoadedComponent>> {
        let mut kept = self.kept.lock();
        let at = kept.iter().position(|component| component.digest == *digest)?;
        let component = kept.remove(at);
        kept.push(component.clone());
        Some(component)
    }
}
