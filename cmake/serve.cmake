# The service: the daemon's library, with its page compiled in.
embed_texts(lw_page src/serve/page "page.*" page_texts)
library(lw_serve FOLDERS src/serve SOURCES ${lw_page}
        USES lw_services lw_tuner_db lw_measure prometheus-cpp::core PkgConfig::HTTPLIB nlohmann_json::nlohmann_json OpenSSL::SSL)
