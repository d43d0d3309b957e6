# Included by a consumer before its own call: find_package may be called again, and with the other component.
find_package(llminfer 0.1 REQUIRED)
find_package(llminfer REQUIRED COMPONENTS ${CONSUMER_COMPONENT})
