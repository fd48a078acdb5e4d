# The service: the daemon's library, with its page compiled in.
embed_texts(lw_page src/serve/page "page.*" page_texts)
library(lw_serve FOLDERS src/serve src/serve/messages src/serve/rows src/serve/access src/serve/queue src/serve/studies
        src/serve/core src/serve/service src/serve/page src/serve/wire
        SOURCES ${lw_page}
        USES lw_api lw_figures lw_net lw_services prometheus-cpp::core PkgConfig::HTTPLIB OpenSSL::SSL
             absl::synchronization
        SERVICE)
